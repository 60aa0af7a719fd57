from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.ui.drawn.wording import every, moment, pretty, ticks

NOW = datetime(2026, 11, 18, 23, 30, tzinfo=UTC)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_a_time_is_shown_in_utc() -> None:
    assert moment(datetime.fromisoformat("2026-11-18T12:00:00+02:00")) == "2026-11-18 10:00:00 UTC"
    assert moment("infinity") == "infinity"
    assert moment(None) == "–"  # noqa: RUF001 - an en dash


def test_the_next_ticks_are_told_by_day_and_the_first_by_its_distance() -> None:
    times = [NOW + timedelta(minutes=15), NOW + timedelta(hours=1), NOW + timedelta(days=2)]
    assert ticks(times, NOW, None) == [
        "in 15 min, today at 23:45:00",
        "tomorrow at 00:30:00",
        "Fri 20 Nov 2026 at 23:30:00",
    ]


def test_days_are_those_of_the_schedules_time_zone() -> None:
    assert ticks([NOW + timedelta(minutes=15)], NOW, "Europe/Berlin") == [
        "in 15 min, today at 00:45:00"
    ]
    assert ticks([NOW], NOW, "Nowhere/Land") == ["in 0.0 s, today at 23:30:00"]


def test_a_tick_that_is_late_is_due() -> None:
    assert ticks([NOW - timedelta(hours=3)], NOW, None) == ["due for 3 h, today at 20:30:00"]
    assert ticks([], NOW, None) == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(86400, "every 1 day"), (7200, "every 2 hours"), (5400, "every 90 minutes"),
     (90, "every 90 s"), (0.5, "every 0.5 s"), (90000, "every 25 hours")],
)  # fmt: skip
def test_a_period_is_told_in_its_largest_unit(seconds: float, words: str) -> None:
    assert every(timedelta(seconds=seconds)) == words


def test_numbers_are_shown_as_they_are_written() -> None:
    written = (
        b'{"id":12345678901234567890123,"price":1.10,"tiny":1e-400,"none":[],"of":{"a":[1,2]}}'
    )
    assert pretty(written) == (
        '{\n  "id": 12345678901234567890123,\n  "price": 1.10,\n  "tiny": 1e-400,\n  "none": [],\n'
        '  "of": {\n    "a": [\n      1,\n      2\n    ]\n  }\n}'
    )


def test_what_is_not_json_is_shown_as_it_is() -> None:
    assert pretty(b"hello {") == "hello {"
    assert pretty(b"\xff\x00") == "\\xff\x00"
    assert pretty(None) == ""
    assert pretty(b"[" * 100_000) == "[" * 100_000


@given(DOCUMENTS)
def test_indented_json_means_the_same(document: object) -> None:
    assert json.loads(pretty(json.dumps(document).encode())) == document
    assert pretty(json.dumps(document).encode()) == json.dumps(document, indent=2)
