"""Requests for a checkpoint, from whatever thread they come."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from milepost import LATEST, Position, Segment, Trigger
from milepost.processors.self_checkpointing.api import end, taken

SEGMENT = Segment(1, 3)


def at(position: int) -> Position:
    return Position(0, position)


def trigger(wakes: list[int] | None = None) -> Trigger:
    return Trigger(SEGMENT, lambda: None if wakes is None else wakes.append(1))


def test_nothing_is_asked_for_until_somebody_asks() -> None:
    assert taken(trigger()) is None


def test_without_a_position_all_that_was_consumed_is_asked_for() -> None:
    asking = trigger()
    asking.request()
    assert taken(asking) is LATEST


def test_what_was_taken_is_not_asked_for_again() -> None:
    asking = trigger()
    asking.request(at(5))
    assert taken(asking) == at(5)
    assert taken(asking) is None


def test_5_then_3_stays_5() -> None:
    asking = trigger()
    asking.request(at(5))
    asking.request(at(3))
    assert taken(asking) == at(5)


@pytest.mark.parametrize("order", [(5, 8), (8, 5)])
def test_5_and_8_at_once_from_two_threads_become_8(order: tuple[int, int]) -> None:
    for _ in range(50):
        asking, barrier = trigger(), Barrier(2)

        def ask(position: int, asking: Trigger = asking, barrier: Barrier = barrier) -> None:
            barrier.wait()
            asking.request(at(position))

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(ask, order))
        assert taken(asking) == at(8)


def test_what_is_not_consumed_yet_is_asked_for_again_once_it_is() -> None:
    asking = trigger()
    asking.request(at(8))
    asking.request()
    assert taken(asking, at(5)) is LATEST
    assert taken(asking, at(7)) is None
    assert taken(asking, at(9)) == at(8)
    assert taken(asking, at(9)) is None


def test_of_several_that_are_not_consumed_yet_the_highest_is_kept() -> None:
    asking = trigger()
    asking.request(at(8))
    assert taken(asking, at(5)) == at(8)  # the caller cuts it to what was consumed
    asking.request(at(6))
    assert taken(asking, at(5)) == at(6)
    assert taken(asking, at(8)) == at(8)


def test_what_was_kept_ends_with_the_claim() -> None:
    asking = trigger()
    asking.request(at(8))
    taken(asking, at(5))
    end(asking)
    assert taken(asking, at(9)) is None


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Threads interrupt each other as often as Python can let them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_what_a_thread_has_asked_for_is_never_lowered_by_another(eager_switches: None) -> None:
    """Seen to fail without the lock: of two that read the same, the later write would win."""
    asking, threads, each = trigger(), 4, 3000

    def ask(thread: int) -> int:
        lowered = 0
        for n in range(each):
            mine = at(n * threads + thread)
            asking.request(mine)
            pending = asking._pending
            lowered += not (isinstance(pending, Position) and pending >= mine)
        return lowered

    with ThreadPoolExecutor(threads) as pool:
        assert sum(pool.map(ask, range(threads))) == 0
    assert taken(asking) == at(each * threads - 1)


def test_a_request_wakes_whoever_serves_it() -> None:
    wakes: list[int] = []
    asking = trigger(wakes)
    asking.request()
    asking.request(at(3))
    assert len(wakes) == 2


def test_a_request_from_whoever_is_woken_does_not_block() -> None:
    """The lock is not held while somebody else's code runs."""
    asked: list[Trigger] = []

    def wake() -> None:
        if len(asked) < 3:
            asked.append(asking)
            asking.request()

    asking = Trigger(SEGMENT, wake)
    asking.request()
    assert len(asked) == 3


def test_after_the_end_of_the_claim_it_asks_for_nothing_and_raises_nothing() -> None:
    wakes: list[int] = []
    asking = trigger(wakes)
    asking.request(at(5))
    end(asking)
    asking.request(at(8))
    assert taken(asking) is None
    assert not asking.is_active
    assert len(wakes) == 1


def test_it_names_its_segment_and_its_state() -> None:
    asking = trigger()
    assert asking.segment == SEGMENT
    assert repr(asking) == "<Trigger of segment 1, active>"
    end(asking)
    assert repr(asking) == "<Trigger of segment 1, inert>"


@pytest.mark.parametrize("wrong", [5, "5", None, (0, 5)])
def test_what_is_no_position_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="takes a Position or LATEST"):
        trigger().request(wrong)


def test_one_whose_claim_does_not_hold_any_more_is_inert() -> None:
    wakes: list[int] = []
    is_held = True
    asking = Trigger(SEGMENT, lambda: wakes.append(1), holds=lambda: is_held)
    assert asking.is_active
    is_held = False
    asking.request()
    assert not asking.is_active
    assert (taken(asking), wakes) == (None, [])
    assert repr(asking) == "<Trigger of segment 1, inert>"
