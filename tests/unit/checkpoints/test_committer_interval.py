"""The interval: a thread stores what no batch was big enough for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from milepost.checkpoints import Committer
from tests.unit.checkpoints.recorder import Clock, Recorder, StoreFailed, at
from tests.waiting import wait_until

SOON, NEVER = 0.02, 3600.0


@contextmanager
def committing(
    store: Recorder,
    interval: float = SOON,
    batch_size: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Committer]:
    """With ten messages admitted; ends without storing."""
    committer = Committer(store, batch_size, interval, clock=clock)
    for _ in range(10):
        committer.admit()
    try:
        yield committer
    finally:
        store.gate.set()
        committer.abandon()


def timer_looks_again(clock: Clock) -> None:
    before = clock.looks
    wait_until(lambda: clock.looks > before + 5)


def test_the_interval_stores_what_is_contiguous() -> None:
    store = Recorder()
    with committing(store) as committer:
        committer.complete(at(2), 2)
        committer.complete(at(1), 1)
        committer.complete(at(4), 4)
        wait_until(lambda: store.stored == [at(2)])
        committer.complete(at(3), 3)
        wait_until(lambda: store.stored == [at(2), at(4)])


def test_with_an_interval_alone_a_completion_does_not_store() -> None:
    store = Recorder()
    with committing(store, NEVER) as committer:
        for sequence in range(1, 11):
            committer.complete(at(sequence), sequence)
        assert store.attempts == 0


def test_a_full_batch_does_not_wait_for_the_interval() -> None:
    store = Recorder()
    with committing(store, NEVER, batch_size=3) as committer:
        for sequence in (1, 2, 3, 4):
            committer.complete(at(sequence), sequence)
        assert store.stored == [at(3)]


def test_the_interval_counts_from_the_first_advance_that_is_not_stored() -> None:
    """The thread waits in real time and decides by the clock it was given."""
    store, clock = Recorder(), Clock()
    with committing(store, SOON, clock=clock) as committer:
        clock.now += 100
        committer.complete(at(1), 1)
        clock.now += SOON * 0.9
        committer.complete(at(2), 2)
        timer_looks_again(clock)
        assert store.attempts == 0
        clock.now += SOON * 0.2
        wait_until(lambda: store.stored == [at(2)])


def test_a_store_that_fails_in_the_background_is_raised_by_the_next_completion() -> None:
    store, clock = Recorder(failures=1), Clock()
    with committing(store, SOON, clock=clock) as committer:
        committer.complete(at(1), 1)
        clock.now += SOON
        wait_until(lambda: committer._error is not None)
        with pytest.raises(StoreFailed):
            committer.complete(at(2), 2)
        committer.complete(at(3), 3)  # raised once; the message of the one before is complete
        clock.now += SOON
        wait_until(lambda: store.stored == [at(3)])
        committer.check()


def test_a_store_that_fails_in_the_background_is_raised_by_check() -> None:
    store, clock = Recorder(failures=1), Clock()
    with committing(store, SOON, clock=clock) as committer:
        committer.complete(at(1), 1)
        clock.now += SOON
        wait_until(lambda: committer._error is not None)
        with pytest.raises(StoreFailed):
            committer.check()
        committer.check()


def test_a_store_that_fails_in_the_background_is_tried_again_at_every_interval() -> None:
    store = Recorder(failures=3)
    with committing(store) as committer:
        committer.complete(at(1), 1)
        wait_until(lambda: store.stored == [at(1)])
        assert store.attempts == 4


def test_a_background_failure_is_tried_again_no_sooner_than_an_interval_later() -> None:
    store, clock = Recorder(failures=1), Clock()
    with committing(store, SOON, clock=clock) as committer:
        committer.complete(at(1), 1)
        clock.now += SOON
        wait_until(lambda: committer._error is not None)
        timer_looks_again(clock)
        assert store.attempts == 1
        clock.now += SOON
        wait_until(lambda: store.stored == [at(1)])


def test_close_stores_and_ends_the_timer() -> None:
    store = Recorder()
    committer = Committer(store, batch_size=0, interval=NEVER)
    committer.admit()
    committer.complete(at(1), 1)
    timer = committer._timer
    assert timer.is_alive()
    committer.close()
    assert store.stored == [at(1)]
    assert not timer.is_alive()


def test_close_makes_up_for_a_store_that_failed_in_the_background() -> None:
    store, clock = Recorder(failures=1), Clock()
    with committing(store, SOON, clock=clock) as committer:
        committer.complete(at(1), 1)
        clock.now += SOON
        wait_until(lambda: committer._error is not None)
        committer.close()
        assert store.stored == [at(1)]


def test_without_an_interval_there_is_no_timer() -> None:
    committer = Committer(Recorder(), batch_size=1, interval=0)
    assert committer._timer.ident is None  # never started
    committer.close()


@pytest.mark.parametrize("end", [Committer.close, Committer.abandon])
def test_both_ends_wait_for_a_store_of_the_timer_and_nothing_stores_after(
    end: Callable[[Committer], None],
) -> None:
    store = Recorder()
    store.gate.clear()
    with committing(store) as committer:
        committer.complete(at(1), 1)
        assert store.entered.wait(30)
        ending = threading.Thread(target=end, args=(committer,))
        ending.start()
        wait_until(lambda: committer._is_closed)
        committer.complete(at(2), 2)
        assert ending.is_alive()
        store.gate.set()
        ending.join(30)
        assert not committer._timer.is_alive()
        # Closing stores what was contiguous when it came to it, abandoning does not.
        assert store.stored == ([at(1), at(2)] if end is Committer.close else [at(1)])
        committer.complete(at(3), 3)
        assert store.attempts == len(store.stored)
