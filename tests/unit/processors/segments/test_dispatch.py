"""The feed deals to those that are with it; who is behind, or full, reads for himself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any, cast

import pytest

from milepost.log import Batch
from milepost.processors.segments.claimed_segment import ClaimedSegment, Phase
from milepost.processors.segments.claims import Claim
from milepost.processors.segments.dispatch import FULL_BATCHES, Dispatch
from milepost.records import Position, RecordedMessage, Segment

SIZE = 4
FAR = 1e9


def claim(id_: int, position: int = 0, epoch: int = 1, mask: int = 1) -> Claim:
    return Claim(Segment(id_, mask), epoch, Position(0, position), ())


def keys(segment: Segment) -> Iterator[str]:
    return (key for key in map(str, count()) if segment.holds(key))


def batch(first: int, number: int, segment: Segment = Segment.WHOLE) -> Batch:
    key = next(keys(segment))
    now = datetime.now(UTC)
    messages = [
        RecordedMessage("T", None, key=key, position=Position(0, n), recorded_at=now)
        for n in range(first, first + number)
    ]
    return Batch(messages, Position(0, first + number - 1), is_full=True, is_held=False)


@pytest.fixture
def dispatch() -> Dispatch:
    return Dispatch(SIZE)


def add(dispatch: Dispatch, *claims: Claim, deadline: float = FAR) -> list[Claim]:
    return dispatch.add([(each, cast("Any", None)) for each in claims], deadline)


def begin(dispatch: Dispatch) -> dict[int, ClaimedSegment]:
    """Everything that was claimed has begun; the segments by id."""
    segments: dict[int, ClaimedSegment] = {}
    while len(segments) < dispatch.number:
        segment = dispatch.take()
        assert isinstance(segment, ClaimedSegment)
        segment.begun()
        segments[segment.id] = segment
        dispatch.put_back(segment)
    return segments


def deal(dispatch: Dispatch, dealt: Batch) -> None:
    reading = dispatch.next_reading()
    assert reading is not None
    dispatch.deal(reading, dealt)


def test_messages_go_to_the_slot_that_holds_their_key(dispatch: Dispatch) -> None:
    add(dispatch, claim(0), claim(1))
    segments = begin(dispatch)
    deal(dispatch, batch(1, 3, Segment(1, 1)))
    assert [len(segments[n].messages) for n in (0, 1)] == [0, 3]
    assert segments[0].reached == segments[1].reached == dispatch.position == Position(0, 3)


def test_the_feed_begins_where_the_foremost_segment_is(dispatch: Dispatch) -> None:
    add(dispatch, claim(0, 5), claim(1, 9))
    segments = begin(dispatch)
    assert dispatch.position == Position(0, 9)
    assert [segments[n].is_attached for n in (0, 1)] == [False, True]


def test_a_slot_behind_the_feed_is_attached_once_it_has_caught_up(dispatch: Dispatch) -> None:
    add(dispatch, claim(0, 5), claim(1, 9))
    behind = begin(dispatch)[0]
    taken = dispatch.take()
    assert taken is behind
    behind.reached = Position(0, 9)
    dispatch.put_back(behind)
    assert behind.is_attached


def test_what_a_slot_ahead_of_the_feed_has_done_is_not_given_to_it_again(
    dispatch: Dispatch,
) -> None:
    add(dispatch, claim(0))
    segment = begin(dispatch)[0]
    segment.reached = Position(0, 2)
    deal(dispatch, batch(1, 4, Segment(0, 1)))
    assert [m.position.position for m in segment.messages] == [3, 4]


def test_a_batch_that_was_read_before_a_claim_moved_the_feed_is_dropped(dispatch: Dispatch) -> None:
    add(dispatch, claim(0))
    segment = begin(dispatch)[0]
    reading = dispatch.next_reading()
    assert reading is not None
    add(dispatch, claim(1, 50))
    dispatch.deal(reading, batch(1, 3, Segment(0, 1)))
    assert not segment.messages
    assert dispatch.position == Position(0, 50)


def test_a_full_slot_falls_off_when_another_is_hungry(dispatch: Dispatch) -> None:
    add(dispatch, claim(0), claim(1))
    segments = begin(dispatch)
    number = FULL_BATCHES * SIZE
    deal(dispatch, batch(1, number, Segment(0, 1)))
    reading = dispatch.next_reading()
    assert reading is not None
    assert [segment.id for segment in reading.segments] == [1]
    assert not segments[0].is_attached
    assert len(segments[0].messages) == number  # it drains first


def test_when_all_have_enough_the_feed_waits(dispatch: Dispatch) -> None:
    add(dispatch, claim(0))
    begin(dispatch)
    deal(dispatch, batch(1, FULL_BATCHES * SIZE, Segment(0, 1)))
    assert dispatch.next_reading() is None


def test_a_call_gets_no_more_than_a_batch_and_the_rest_stays_in_order(dispatch: Dispatch) -> None:
    add(dispatch, claim(0))
    segment = begin(dispatch)[0]
    deal(dispatch, batch(1, SIZE + 2, Segment(0, 1)))
    first, second = dispatch.next_batch(segment), dispatch.next_batch(segment)
    assert first is not None
    assert second is not None
    assert (len(first.messages), len(second.messages)) == (SIZE, 2)
    assert first.reached == first.messages[-1].position
    assert second.reached == dispatch.position


def test_a_slot_is_in_one_hand_at_a_time_and_then_stands_at_the_end(dispatch: Dispatch) -> None:
    add(dispatch, claim(0), claim(1))
    begin(dispatch)
    deal(dispatch, batch(1, 2, Segment(0, 1)))
    deal(dispatch, batch(3, 2, Segment(1, 1)))
    first, second = dispatch.take(), dispatch.take()
    assert isinstance(first, ClaimedSegment)
    assert isinstance(second, ClaimedSegment)
    assert {first.id, second.id} == {0, 1}
    dispatch.put_back(second)
    dispatch.put_back(first)
    assert dispatch.take() is second


def test_who_is_to_go_comes_first_and_gets_no_message_more(dispatch: Dispatch) -> None:
    add(dispatch, claim(0), claim(1))
    segments = begin(dispatch)
    deal(dispatch, batch(1, 3, Segment(0, 1)))
    dispatch.leave([1])
    assert dispatch.take() is segments[1]


def test_a_claim_past_its_deadline_is_lost_before_it_is_handled(dispatch: Dispatch) -> None:
    add(dispatch, claim(0), deadline=-1.0)
    segment = dispatch.take()
    assert isinstance(segment, ClaimedSegment)
    assert segment.phase is Phase.LOST


def test_one_that_is_just_beginning_is_given_back_afterwards(dispatch: Dispatch) -> None:
    """Its listener was told of the claim, and is told of the release."""
    add(dispatch, claim(0), claim(1))
    beginning = dispatch.take()
    assert isinstance(beginning, ClaimedSegment)
    dispatch.leave()
    beginning.begun()
    assert beginning.phase is Phase.LEAVING
    other = dispatch.take()
    assert isinstance(other, ClaimedSegment)
    assert other.phase is Phase.LOST  # nobody was told of it


@pytest.mark.parametrize("is_leaving", [False, True])
def test_one_whose_begin_is_interrupted_is_lost(dispatch: Dispatch, is_leaving: bool) -> None:
    add(dispatch, claim(0))
    segment = dispatch.take()
    assert isinstance(segment, ClaimedSegment)
    if is_leaving:
        dispatch.leave()
    segment.interrupted()
    assert segment.phase is Phase.LOST


def test_after_a_failure_nothing_is_claimed_any_more(dispatch: Dispatch) -> None:
    """Or what must not be tried again would be, before the session that failed has ended."""
    add(dispatch, claim(0))
    begin(dispatch)
    dispatch.fail(RuntimeError("no retry"))
    assert [c.segment.id for c in add(dispatch, claim(1))] == [1]


def test_one_that_is_interrupted_later_is_given_back(dispatch: Dispatch) -> None:
    add(dispatch, claim(0))
    begin(dispatch)[0].interrupted()
    assert dispatch.epochs()[1] == {0}
    assert [s.phase for s in [dispatch.take()] if s] == [Phase.LEAVING]


def test_a_paused_board_still_lets_segments_go(dispatch: Dispatch) -> None:
    add(dispatch, claim(0), claim(1))
    segments = begin(dispatch)
    deal(dispatch, batch(1, 3, Segment(0, 1)))
    dispatch.pause(is_paused=True)
    dispatch.leave([1])
    assert dispatch.take() is segments[1]


def test_the_same_segment_is_not_added_while_its_earlier_claim_is_here(dispatch: Dispatch) -> None:
    add(dispatch, claim(0))
    again = claim(0, epoch=2)
    assert add(dispatch, again) == [again]
    assert dispatch.epochs()[0] == {0: 1}


def test_what_failed_is_raised_to_whoever_asks(dispatch: Dispatch) -> None:
    dispatch.fail(ValueError("the first"))
    dispatch.fail(ValueError("the second"))
    with pytest.raises(ValueError, match="the first"):
        dispatch.check()
