"""The feed deals to those that are with it; who is behind, or full, reads for himself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any, cast

import pytest

from milepost.log import Batch
from milepost.processors.segmented.board import FULL_BATCHES, Board
from milepost.processors.segmented.claims import Claim
from milepost.processors.segmented.slot import Slot
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
def board() -> Board:
    return Board(SIZE)


def add(board: Board, *claims: Claim, deadline: float = FAR) -> list[Claim]:
    return board.add([(each, cast("Any", None)) for each in claims], deadline)


def begin(board: Board) -> dict[int, Slot]:
    """Everything that was claimed has begun; the slots by id."""
    slots: dict[int, Slot] = {}
    while len(slots) < board.number:
        slot = board.take()
        assert isinstance(slot, Slot)
        slot.is_begun = True
        slots[slot.id] = slot
        board.put_back(slot)
    return slots


def deal(board: Board, dealt: Batch) -> None:
    reading = board.next_reading()
    assert reading is not None
    board.deal(reading, dealt)


def test_messages_go_to_the_slot_that_holds_their_key(board: Board) -> None:
    add(board, claim(0), claim(1))
    slots = begin(board)
    deal(board, batch(1, 3, Segment(1, 1)))
    assert [len(slots[n].messages) for n in (0, 1)] == [0, 3]
    assert slots[0].reached == slots[1].reached == board.position == Position(0, 3)


def test_the_feed_begins_where_the_foremost_segment_is(board: Board) -> None:
    add(board, claim(0, 5), claim(1, 9))
    slots = begin(board)
    assert board.position == Position(0, 9)
    assert [slots[n].is_attached for n in (0, 1)] == [False, True]


def test_a_slot_behind_the_feed_is_attached_once_it_has_caught_up(board: Board) -> None:
    add(board, claim(0, 5), claim(1, 9))
    behind = begin(board)[0]
    taken = board.take()
    assert taken is behind
    behind.reached = Position(0, 9)
    board.put_back(behind)
    assert behind.is_attached


def test_what_a_slot_ahead_of_the_feed_has_done_is_not_given_to_it_again(board: Board) -> None:
    add(board, claim(0))
    slot = begin(board)[0]
    slot.reached = Position(0, 2)
    deal(board, batch(1, 4, Segment(0, 1)))
    assert [m.position.position for m in slot.messages] == [3, 4]


def test_a_batch_that_was_read_before_a_claim_moved_the_feed_is_dropped(board: Board) -> None:
    add(board, claim(0))
    slot = begin(board)[0]
    reading = board.next_reading()
    assert reading is not None
    add(board, claim(1, 50))
    board.deal(reading, batch(1, 3, Segment(0, 1)))
    assert not slot.messages
    assert board.position == Position(0, 50)


def test_a_full_slot_falls_off_when_another_is_hungry(board: Board) -> None:
    add(board, claim(0), claim(1))
    slots = begin(board)
    number = FULL_BATCHES * SIZE
    deal(board, batch(1, number, Segment(0, 1)))
    reading = board.next_reading()
    assert reading is not None
    assert [slot.id for slot in reading.slots] == [1]
    assert not slots[0].is_attached
    assert len(slots[0].messages) == number  # it drains first


def test_when_all_have_enough_the_feed_waits(board: Board) -> None:
    add(board, claim(0))
    begin(board)
    deal(board, batch(1, FULL_BATCHES * SIZE, Segment(0, 1)))
    assert board.next_reading() is None


def test_a_call_gets_no_more_than_a_batch_and_the_rest_stays_in_order(board: Board) -> None:
    add(board, claim(0))
    slot = begin(board)[0]
    deal(board, batch(1, SIZE + 2, Segment(0, 1)))
    first, second = board.next_batch(slot), board.next_batch(slot)
    assert (len(first.messages), len(second.messages)) == (SIZE, 2)
    assert first.reached == first.messages[-1].position
    assert second.reached == board.position


def test_a_slot_is_in_one_hand_at_a_time_and_then_stands_at_the_end(board: Board) -> None:
    add(board, claim(0), claim(1))
    begin(board)
    deal(board, batch(1, 2, Segment(0, 1)))
    deal(board, batch(3, 2, Segment(1, 1)))
    first, second = board.take(), board.take()
    assert isinstance(first, Slot)
    assert isinstance(second, Slot)
    assert {first.id, second.id} == {0, 1}
    board.put_back(second)
    board.put_back(first)
    assert board.take() is second


def test_who_is_to_go_comes_first_and_gets_no_message_more(board: Board) -> None:
    add(board, claim(0), claim(1))
    slots = begin(board)
    deal(board, batch(1, 3, Segment(0, 1)))
    board.leave([1])
    assert board.take() is slots[1]


def test_a_claim_past_its_deadline_is_lost_before_it_is_handled(board: Board) -> None:
    add(board, claim(0), deadline=-1.0)
    slot = board.take()
    assert isinstance(slot, Slot)
    assert slot.is_lost


def test_a_paused_board_still_lets_segments_go(board: Board) -> None:
    add(board, claim(0), claim(1))
    slots = begin(board)
    deal(board, batch(1, 3, Segment(0, 1)))
    board.pause(is_paused=True)
    board.leave([1])
    assert board.take() is slots[1]


def test_the_same_segment_is_not_added_while_its_earlier_claim_is_here(board: Board) -> None:
    add(board, claim(0))
    again = claim(0, epoch=2)
    assert add(board, again) == [again]
    assert board.epochs()[0] == {0: 1}


def test_what_failed_is_raised_to_whoever_asks(board: Board) -> None:
    board.fail(ValueError("the first"))
    board.fail(ValueError("the second"))
    with pytest.raises(ValueError, match="the first"):
        board.check()
