"""Many threads: who waits for whom, and in which order positions reach the store."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from random import Random
from typing import Any

import pytest

from milepost.checkpoints import Committer
from milepost.errors import CommitterClosed
from tests.unit.checkpoints.recorder import Recorder, StoreFailed, at
from tests.waiting import wait_until

PATIENCE_SECONDS = 30.0
OVER = -1


class Running:
    """A call in a thread of its own, and what came of it."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self._call, self._arguments = call, arguments
        self.result: Any = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), f"{self._call} is still waiting"

    def _run(self) -> None:
        try:
            self.result = self._call(*self._arguments)
        except Exception as error:  # noqa: BLE001 - for the test to look at
            self.error = error


@contextmanager
def slow_store(batch_size: int) -> Iterator[tuple[Committer, Recorder, Running]]:
    """A store that is under way in another thread, of the first message's position."""
    store = Recorder()
    store.gate.clear()
    committer = Committer(store, batch_size, interval=0)
    for _ in range(100):
        committer.admit()
    storing = Running(committer.complete, at(1), 1)
    try:
        assert store.entered.wait(PATIENCE_SECONDS)
        yield committer, store, storing
    finally:
        store.gate.set()
        storing.join()


@pytest.mark.parametrize("batch_size", [0, 1])
def test_completions_do_not_wait_for_a_slow_store(batch_size: int) -> None:
    """Each of them is due a store of its own, which the one that is storing makes for them."""
    with slow_store(batch_size) as (committer, store, storing):
        others = [Running(committer.complete, at(n), n) for n in range(2, 51)]
        for other in others:
            other.join()
            assert other.error is None
        assert storing.is_running
        assert store.stored == []
        store.gate.set()
        storing.join()
        assert store.stored == [at(1), at(50)]


def test_what_came_due_during_a_flush_is_stored_by_it() -> None:
    store = Recorder()
    store.gate.clear()
    committer = Committer(store, batch_size=2, interval=0)
    for _ in range(4):
        committer.admit()
    committer.complete(at(1), 1)
    flushing = Running(committer.flush)
    assert store.entered.wait(PATIENCE_SECONDS)
    for sequence in (2, 3):
        completing = Running(committer.complete, at(sequence), sequence)
        completing.join()
    store.gate.set()
    flushing.join()
    assert store.stored == [at(1), at(3)]


def test_admitting_and_looking_do_not_wait_for_a_slow_store() -> None:
    with slow_store(batch_size=1) as (committer, _, _):
        for call in (committer.admit, lambda: committer.oldest_gap, committer.check):
            looking = Running(call)
            looking.join()
            assert looking.error is None


def test_a_flush_waits_for_the_store_that_is_under_way() -> None:
    with slow_store(batch_size=1) as (committer, store, _):
        committer.complete(at(2), 2)
        flushing = Running(committer.flush)
        store.gate.set()
        flushing.join()
        assert store.stored == [at(1), at(2)]
        assert not store.overlapped


@pytest.mark.parametrize("end", [Committer.close, Committer.abandon])
def test_a_store_under_way_is_over_when_the_committer_is(
    end: Callable[[Committer], None],
) -> None:
    """Closing stores the rest; abandoning does not, and a flush that waits finds it so."""
    with slow_store(batch_size=1) as (committer, store, storing):
        committer.complete(at(2), 2)
        waiting = Running(committer.flush)
        ending = Running(end, committer)
        wait_until(lambda: committer._is_closed)
        assert ending.is_running
        store.gate.set()
        for running in (ending, storing, waiting):
            running.join()
        expected = [at(1), at(2)] if end is Committer.close else [at(1)]
        assert store.stored == expected


def test_a_failed_store_is_raised_to_the_thread_that_stored() -> None:
    with slow_store(batch_size=1) as (committer, store, storing):
        store.failures = 1
        committer.complete(at(2), 2)
        store.gate.set()
        storing.join()
        assert isinstance(storing.error, StoreFailed)
        assert store.stored == []
        committer.complete(at(3), 3)
        assert store.stored == [at(3)]


def test_admit_waits_at_max_pending_and_goes_on_when_the_gap_closes() -> None:
    committer = Committer(Recorder(), batch_size=100, interval=0, max_pending=2)
    assert (committer.admit(), committer.admit()) == (1, 2)
    admitting = Running(committer.admit)
    wait_until(lambda: committer._changed._waiters)  # type: ignore[attr-defined]
    committer.complete(at(2), 2)
    assert admitting.is_running
    committer.complete(at(1), 1)
    admitting.join()
    assert admitting.result == 3


@pytest.mark.parametrize("end", [Committer.close, Committer.abandon])
def test_whoever_waits_for_room_is_told_that_there_will_be_none(
    end: Callable[[Committer], None],
) -> None:
    committer = Committer(Recorder(), 0, 0, max_pending=1)
    committer.admit()
    admitting = Running(committer.admit)
    wait_until(lambda: committer._changed._waiters)  # type: ignore[attr-defined]
    end(committer)
    admitting.join()
    assert isinstance(admitting.error, CommitterClosed)


@pytest.fixture
def impatient_interpreter() -> Iterator[None]:
    """Threads take turns a thousand times as often, so that rare interleavings happen."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("impatient_interpreter")
@pytest.mark.parametrize(
    ("batch_size", "interval"), [(0, 0), (1, 0), (50, 0), (0, 0.001), (20, 0.001)]
)
def test_positions_reach_the_store_one_at_a_time_in_order_and_to_the_end(
    batch_size: int, interval: float
) -> None:
    threads, each = 8, 2000
    store = Recorder()
    committer = Committer(store, batch_size, interval, max_pending=500)
    work: SimpleQueue[int] = SimpleQueue()
    workers = [Running(complete_shuffled, committer, work, seed) for seed in range(threads)]
    for _ in range(threads * each):
        sequence = committer.admit(timeout=PATIENCE_SECONDS)
        assert sequence is not None, "no room: a completion was lost"
        work.put(sequence)
    for _ in workers:
        work.put(OVER)
    for worker in workers:
        worker.join()
        assert worker.error is None
    if batch_size <= 1 and not interval:  # nothing is left for close to store
        assert store.stored[-1] == at(threads * each)
    committer.close()
    assert not store.overlapped
    assert store.stored[-1] == at(threads * each)
    assert store.stored == sorted(set(store.stored))


def complete_shuffled(committer: Committer, work: SimpleQueue[int], seed: int) -> None:
    """Keeps up to ten messages in hand and completes them in any order, some of them twice."""
    random, in_hand, is_over = Random(seed), list[int](), False
    while in_hand or not is_over:
        while not is_over and len(in_hand) < 10 and (found := take(work, is_idle=not in_hand)):
            is_over = found == OVER
            in_hand += [] if is_over else [found]
        if in_hand:
            sequence = in_hand.pop(random.randrange(len(in_hand)))
            for _ in range(random.choice((1, 1, 1, 2))):
                committer.complete(at(sequence), sequence)


def take(work: SimpleQueue[int], *, is_idle: bool) -> int | None:
    """Waits only with nothing in hand: what is in hand may be what the others wait for."""
    try:
        return work.get(block=is_idle, timeout=PATIENCE_SECONDS)
    except Empty:
        return None
