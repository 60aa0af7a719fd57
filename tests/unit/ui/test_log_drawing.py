"""The drawing of the log: its words are inside of it and beside each other."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

import pytest

from milepost.log.diagnosis import Holder
from milepost.records import Position
from milepost.ui.drawn.log_drawing import draw_log
from milepost.ui.observed.log_reads import Edges

CHARACTER = 7  # pixels, at most, in the font of the charts
HOLDER = Holder(7, None, "import", "app", "shop", "idle in transaction", 75.0, None, "end it")
SMALL, LARGE = Position(0, 12), Position(987_654_321, 123_456_789_012)


def edges(place: Position, above: int = 0, *, is_archived: bool = False) -> Edges:
    holders = (HOLDER,) if above else ()
    return Edges(place, place, above, holders, place if is_archived else None, None, 5, True)


def _parsed(drawn: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawn)  # noqa: S314 - drawn here


def spans(drawn: str) -> list[tuple[str, float, float, float]]:
    """The words, their line, and from where to where each of them reaches."""
    found = []
    for each in _parsed(drawn).iter("text"):
        words, at = each.text or "", float(each.get("x", ""))
        wide = len(words) * CHARACTER
        begin = at - {"start": 0, "middle": wide / 2, "end": wide}[each.get("text-anchor", "")]
        found.append((words, float(each.get("y", "")), begin, begin + wide))
    return found


@pytest.mark.parametrize("is_archived", [False, True])
@pytest.mark.parametrize("above", [0, 12, 6_789])
@pytest.mark.parametrize("place", [SMALL, LARGE])
def test_all_words_can_be_read(place: Position, above: int, is_archived: bool) -> None:
    drawn = draw_log(edges(place, above, is_archived=is_archived))
    width = float(_parsed(drawn).get("width", ""))
    found = spans(drawn)
    assert len(found) >= 3
    assert [words for words, _, begin, end in found if begin < 0 or end > width] == []
    for (one, line, begin, end), (other, other_line, other_begin, other_end) in combinations(
        found, 2
    ):
        is_apart = line != other_line or end < other_begin or other_end < begin
        assert is_apart, f"{one!r} is written over {other!r}"
