from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.pipeline.source import ranges
from milepost.pipeline.source.ranges import Range
from milepost.records import Position

TOP = 2**63 - 1


class Log:
    """Positions of messages, and the probe a server answers."""

    def __init__(self, positions: Sequence[Position]) -> None:
        self.positions = sorted(positions)
        self.questions = 0

    def probe(self, transaction_ids: Sequence[int]) -> list[Position]:
        self.questions += 1
        places = [bisect_left(self.positions, Position(t, 0)) for t in transaction_ids]
        return [self.positions[place] for place in places]

    def split(self, range_: Range, parts: int) -> list[Range]:
        extent = ranges.extent(self.positions[0], self.positions[-1], self.probe)
        return ranges.split(range_, extent, parts, self.probe)

    def sizes(self, parts: Sequence[Range]) -> list[int]:
        return [sum(part.after < p <= part.last for p in self.positions) for part in parts]


def in_transactions(sizes: Sequence[int], step: int = 3) -> Log:
    """Transactions of these many messages each, positions drawn one after the other."""
    drawn, positions = 0, []
    for number, size in enumerate(sizes):
        positions += [Position(100 + step * number, drawn + i + 1) for i in range(size)]
        drawn += size
    return Log(positions)


positions = st.builds(Position, st.integers(1, 50), st.integers(1, 2000))


@given(st.sets(positions, min_size=1, max_size=60), st.integers(1, 9))
def test_parts_follow_one_another_and_are_the_whole(found: set[Position], parts: int) -> None:
    log = Log(list(found))
    whole = Range(Position.BEGINNING, log.positions[-1])

    split = log.split(whole, parts)

    assert split[0].after == whole.after
    assert split[-1].last == whole.last
    assert all(before.last == after.after for before, after in pairwise(split))
    assert not any(part.is_empty for part in split)
    assert sum(log.sizes(split)) == len(found)
    assert len(split) <= parts


@pytest.mark.parametrize(
    "sizes", [[1000], [1] * 1000, [900] + [1] * 100, [1] * 100 + [900], [10] * 50 + [500]]
)
def test_parts_are_of_about_the_same_size(sizes: list[int]) -> None:
    log = in_transactions(sizes)
    split = log.split(Range(Position.BEGINNING, log.positions[-1]), 4)
    assert all(200 <= size <= 300 for size in log.sizes(split)), log.sizes(split)


def test_append_order_is_split_without_a_question() -> None:
    log = Log([Position(0, n) for n in range(1, 1001)])
    split = log.split(Range(Position.BEGINNING, Position(0, 1000)), 4)
    assert log.sizes(split) == [250, 250, 250, 250]
    assert log.questions == 0


def test_a_late_message_of_an_early_transaction_does_not_hide_how_much_there_is() -> None:
    log = in_transactions([1] * 1000)
    log.positions.insert(0, Position(1, 1001))  # began first, appended last
    split = log.split(Range(Position.BEGINNING, log.positions[-1]), 4)
    assert max(log.sizes(split)) <= 350


def test_the_questions_grow_with_the_logarithm_of_the_range() -> None:
    log = in_transactions([1] * 5000, step=1000)
    log.split(Range(Position.BEGINNING, log.positions[-1]), 16)
    assert log.questions <= 30


@pytest.mark.parametrize(("about", "parts"), [(0, 1), (1, 1), (100, 1), (101, 2), (1000, 10)])
def test_small_ranges_are_one_part(about: int, parts: int) -> None:
    assert ranges.parts_for(about, 100) == parts


@pytest.mark.parametrize(("about", "parts"), [(0, 1), (9_999, 1), (10_000, 2), (10**6, 4)])
def test_a_range_is_for_all_cores_but_not_in_tiny_parts(about: int, parts: int) -> None:
    assert ranges.parts_among(about, cores=4) == parts


WHOLE = Range(Position(0, 10), Position(0, 90))


@pytest.mark.parametrize(
    ("transaction_ids", "positions", "expected"),
    [
        ((None, None), (None, None), WHOLE),
        ((None, None), (20, 30), Range(Position(0, 19), Position(0, 30))),
        ((None, None), (5, 200), WHOLE),
        ((0, 0), (None, None), WHOLE),
        ((1, None), (None, None), Range(Position(0, TOP), Position(0, 90))),
    ],
)
def test_bounds_narrow_a_range(
    transaction_ids: tuple[int | None, int | None],
    positions: tuple[int | None, int | None],
    expected: Range,
) -> None:
    assert ranges.narrowed(WHOLE, transaction_ids, positions) == expected


def test_a_bound_on_the_second_part_says_nothing_across_transactions() -> None:
    whole = Range(Position(3, 10), Position(7, 5))
    assert ranges.narrowed(whole, (None, None), (100, 200)) == whole
