"""However segments are cut and joined, every hash lies in exactly one of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.processors.segments.split_merge import (
    MAX_MASK,
    Dealer,
    Floor,
    above_floors,
    halves,
    narrowest_pair,
    partner,
    widest,
)
from milepost.records import Position, RecordedMessage, Segment, key_hash
from tests.unit.processors.segments.model import initial_segments, merged

HASHES = st.integers(0, 2**32 - 1)
CHOICES = st.lists(st.integers(0, 10**6), max_size=30)


def cut(number: int, choices: list[int]) -> list[Segment]:
    """Segments after some splits and merges: even choices split, odd ones merge."""
    segments = initial_segments(number)
    for choice in choices:
        chosen = segments[choice // 2 % len(segments)]
        other = partner(chosen)
        if choice % 2 == 0 and chosen.mask < MAX_MASK:
            segments = [s for s in segments if s != chosen] + list(halves(chosen))
        elif other in segments:
            segments = [s for s in segments if s not in (chosen, other)] + [merged(chosen)]
    return segments


def message(key: str | None, position: int) -> RecordedMessage:
    return RecordedMessage(
        "Type", None, key=key, position=Position(0, position), recorded_at=datetime.now(UTC)
    )


@given(number=st.integers(1, 300), choices=CHOICES, hashed=HASHES)
def test_every_hash_lies_in_exactly_one_segment(
    number: int, choices: list[int], hashed: int
) -> None:
    holders = [s for s in cut(number, choices) if hashed & s.mask == s.id]
    assert len(holders) == 1


@given(number=st.integers(1, 300), choices=CHOICES)
def test_the_segments_cover_the_whole_hash_space_without_overlap(
    number: int, choices: list[int]
) -> None:
    segments = cut(number, choices)
    assert sum(2**32 // (s.mask + 1) for s in segments) == 2**32
    assert len({s.id for s in segments}) == len(segments)
    assert all(s.id & s.mask == s.id and s.mask & (s.mask + 1) == 0 for s in segments)


@given(number=st.integers(1, 300))
def test_a_processor_begins_with_as_many_segments_as_asked_of_two_sizes_at_most(
    number: int,
) -> None:
    segments = initial_segments(number)
    assert [s.id for s in segments] == list(range(number))
    assert len({s.mask for s in segments}) <= 2


@given(number=st.integers(1, 300), choices=CHOICES, index=st.integers(0))
def test_merging_undoes_splitting(number: int, choices: list[int], index: int) -> None:
    segments = cut(number, choices)
    segment = segments[index % len(segments)]
    first, second = halves(segment)
    assert (partner(first), partner(second)) == (second, first)
    assert merged(first) == merged(second) == segment


@given(key=st.none() | st.text(min_size=1, max_size=20), number=st.integers(1, 40))
def test_a_key_is_dealt_to_the_segment_that_holds_it(key: str | None, number: int) -> None:
    segments = initial_segments(number)
    one = message(key, 1)
    dealt = Dealer(segments).deal([one])
    assert [s for s in segments if dealt[s.id]] == [s for s in segments if s.holds(key)]
    assert sum(map(len, dealt.values())) == 1


def test_what_belongs_to_nobody_is_left_out_and_order_is_kept() -> None:
    messages = [message(f"key-{n % 7}", n) for n in range(1, 100)]
    segment = initial_segments(4)[2]
    dealt = Dealer([segment]).deal(messages)
    assert dealt == {2: [m for m in messages if segment.holds(m.key)]}


def test_none_is_finer_than_the_finest() -> None:
    with pytest.raises(ValueError, match="any further"):
        halves(Segment(5, MAX_MASK))


def test_the_whole_has_no_partner() -> None:
    assert partner(Segment.WHOLE) is None


def test_messages_without_a_key_are_in_segment_0() -> None:
    assert all(initial_segments(n)[0].holds(None) for n in range(1, 50))


def test_a_floor_takes_out_its_own_keys_up_to_its_position() -> None:
    one, other = halves(Segment.WHOLE)
    mine = next(k for k in map(str, range(100)) if one.holds(k))
    theirs = next(k for k in map(str, range(100)) if other.holds(k))
    messages = [message(mine, 1), message(theirs, 2), message(mine, 3), message(mine, 4)]
    left = above_floors(messages, [Floor(one, Position(0, 3))])
    assert [m.position.position for m in left] == [2, 4]


@given(key=st.text(min_size=1, max_size=20), number=st.integers(1, 64))
def test_holds_agrees_with_the_hash(key: str, number: int) -> None:
    for segment in initial_segments(number):
        assert segment.holds(key) == (key_hash(key) & segment.mask == segment.id)


def test_the_widest_is_split_and_the_narrowest_merged_where_none_is_named() -> None:
    segments = initial_segments(5)  # 0 and 4 are halves of one, the others are twice as wide
    assert widest(segments) == Segment(1, 3)
    assert narrowest_pair(segments) == (Segment(0, 7), Segment(4, 7))
    assert narrowest_pair([Segment.WHOLE]) is None
