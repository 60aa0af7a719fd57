from __future__ import annotations

from datetime import UTC, datetime

import pytest
import typer

from milepost import Position, Segment
from milepost.cli.commands.read import parse_segment, parse_start


def test_a_start_is_a_word_a_position_or_a_time() -> None:
    assert parse_start("beginning") == "beginning"
    assert parse_start("end") == "end"
    assert parse_start("42") == Position(0, 42)
    assert parse_start("17:42") == Position(17, 42)
    assert parse_start("2026-01-31T12:00:00Z") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert parse_start("2026-01-31T12:00") == datetime(2026, 1, 31, 12).astimezone()


@pytest.mark.parametrize("text", ["", "yesterday", "-1", "1:", "2026-13-01", "End"])
def test_another_start_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_start(text)


@pytest.mark.parametrize(("id_", "mask"), [(0, 0), (1, 1), (2, 3), (2**31 - 1, 2**31 - 1)])
def test_a_segment_is_an_id_and_a_mask(id_: int, mask: int) -> None:
    assert parse_segment(f"{id_}/{mask}") == Segment(id_, mask)


@pytest.mark.parametrize("text", ["", "1", "1/", "/1", "4/3", "1/2", "-1/3", "0/4294967295"])
def test_another_segment_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_segment(text)
