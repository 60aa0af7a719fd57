from __future__ import annotations

import pytest

from milepost.cli.output import shortened
from milepost.words import count, duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (0.44, "0.4 s"),
        (34.2, "34 s"),
        (119, "119 s"),
        (300, "5 min"),
        (10800, "3 h"),
        (200000, "2 d"),
    ],
)
def test_durations_are_rounded_to_what_matters(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_one_is_not_many() -> None:
    assert [count(n, "message") for n in (0, 1, 1200)] == [
        "0 messages",
        "1 message",
        "1,200 messages",
    ]


def test_text_of_others_is_one_line_that_no_terminal_obeys() -> None:
    assert shortened("select\n\t1 \x1b[31m\x9bx", 80) == "select 1 [31m x"
    assert shortened("x" * 100, 10) == "x" * 9 + "…"
