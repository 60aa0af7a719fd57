"""Store the contiguous position of messages that complete in any order, batched.

The algorithm is in `frontier`; this module adds a lock, a clock and a thread for the interval.
The store is called without the lock that completions need, and by one thread at a time, so that
positions are stored in order. A completion does not wait for another thread that is storing: that
thread checks again before it ends.

A store cannot be interrupted. So a flush or a close with a time limit stores in a thread of its
own, which is left behind when the limit is over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition, Event, Lock, Thread
from types import TracebackType
from typing import Self

from milepost.checkpoints.frontier import Frontier
from milepost.errors import CommitterClosed, CommitterInterrupted
from milepost.records import Position

CANCEL_SECONDS = 0.05  # the longest that a cancelled flush or close goes on waiting
log = logging.getLogger("milepost.checkpoints")


@dataclass(frozen=True, slots=True)
class Gap:
    """The oldest message that was admitted and has not completed."""

    sequence: int
    age_seconds: float


@dataclass(slots=True)
class Limit:
    """How long a flush or a close waits: for some seconds, and until an event is set."""

    seconds: float | None
    cancel: Event | None
    is_given_up: bool = False  # changed and read with the committer's lock
    _began: float = field(default_factory=time.monotonic)

    @property
    def is_unlimited(self) -> bool:
        return self.seconds is None and self.cancel is None

    def over(self) -> str | None:
        """Why there is nothing more to wait for."""
        if self.cancel is not None and self.cancel.is_set():
            return "it was cancelled"
        if self.seconds is not None and time.monotonic() - self._began >= self.seconds:
            return f"the store did not end within {self.seconds:g} s"
        return None

    def step(self) -> float | None:
        """How long to wait before the next look."""
        left = None
        if self.seconds is not None:
            left = max(0.0, self._began + self.seconds - time.monotonic())
        if self.cancel is None:
            return left
        return CANCEL_SECONDS if left is None else min(left, CANCEL_SECONDS)


@dataclass(slots=True)
class Outcome:
    """Of a store in a thread of its own."""

    ended: Event = field(default_factory=Event)
    error: Exception | None = None


UNLIMITED = Limit(None, None)


class Committer:
    """Advances a checkpoint over completed messages, never over a gap.

    `store` is called with the position to store and raises if it cannot. It is called after
    `batch_size` completed messages, or when `interval` seconds have passed with something to
    store; 0 turns either off, both 0 store at every advance. At most `max_pending` messages are
    admitted above the frontier.
    """

    def __init__(
        self,
        store: Callable[[Position], None],
        batch_size: int = 100,
        interval: float = 5.0,
        max_pending: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if batch_size < 0 or interval < 0:
            raise ValueError("batch_size and interval must not be negative.")
        if max_pending < 1:
            raise ValueError(f"max_pending is {max_pending}: expected at least 1.")
        self._store = store
        self._batch_size, self._interval, self._max_pending = batch_size, interval, max_pending
        self._clock = clock
        self._frontier = Frontier()
        self._admitted_at: dict[int, float] = {}
        self._stored_sequence = 0
        self._stored_position: Position | None = None
        self._completed_at_store = 0
        self._due_since: float | None = None
        self._error: Exception | None = None
        self._is_closed = False
        self._is_abandoned = False
        self._changed = Condition()
        self._storing = Lock()
        self._timer = Thread(target=self._tick, name="milepost-committer", daemon=True)
        if interval:
            self._timer.start()

    def admit(self, timeout: float | None = None) -> int | None:
        """The next message's sequence, waiting for room; None if there is none in time.

        Back-pressure is here and not in `complete`: a completion that closes the gap must not wait.
        """
        with self._changed:
            self._refuse_closed()
            has_room = self._changed.wait_for(
                lambda: self._is_closed or self._frontier.pending < self._max_pending, timeout
            )
            self._refuse_closed()
            if not has_room:
                return None
            sequence = self._frontier.admit()
            self._admitted_at[sequence] = self._clock()
            return sequence

    def complete(self, position: Position, sequence: int) -> None:
        """The message is done. Stores if a store is due and no other thread is storing; raises the
        error of an earlier store in the background. After `close` nothing is stored."""
        with self._changed:
            if self._frontier.complete(sequence, position):
                if self._due_since is None:
                    self._due_since = self._clock()
                self._changed.notify_all()
            self._admitted_at.pop(sequence, None)
            is_due = self._is_due()
        self.check()
        if is_due:
            self._store_while_due()

    def flush(self, timeout: float | None = None, cancel: Event | None = None) -> None:
        """Store the contiguous position now, if it moved; raises if that fails, and the position
        is stored later. Raises CommitterInterrupted after `timeout` seconds, or soon after `cancel`
        was set: a store that is running goes on, and none begins."""
        self._refuse_closed()
        self._within("flush", Limit(timeout, cancel), self._flush)

    def close(self, timeout: float | None = None, cancel: Event | None = None) -> None:
        """Stop the timer and store the contiguous position. If the store fails, or is interrupted
        as in `flush`, `close` can be called again. Nothing is admitted in any case."""
        self._end()
        self._within("close", Limit(timeout, cancel), self._store_last)

    def abandon(self) -> None:
        """Stop without storing: another instance has the checkpoint now."""
        with self._changed:
            self._is_abandoned = True
        self._end()
        self._join_timer()
        with self._storing:  # wait for a store that is running
            return

    def check(self) -> None:
        """Raise the error of a store that failed in the background."""
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error

    @property
    def oldest_gap(self) -> Gap | None:
        """The message that holds the checkpoint back, and how long ago it was admitted."""
        with self._changed:
            sequence = self._frontier.oldest_gap
            if sequence is None:
                return None
            return Gap(sequence, self._clock() - self._admitted_at[sequence])

    @property
    def pending(self) -> int:
        with self._changed:
            return self._frontier.pending

    @property
    def checkpoint(self) -> Position | None:
        """The last position that was stored."""
        with self._changed:
            return self._stored_position

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except Exception as failed:
            if error is None:
                raise
            # The first cause is what must be seen. What is not stored is handled again.
            log.warning("last checkpoint not stored: %s", failed)

    def _within(self, action: str, limit: Limit, store: Callable[[Limit], None]) -> None:
        if limit.is_unlimited:
            store(limit)
            return
        outcome, reason = Outcome(), limit.over()
        if reason is None:
            run, name = (store, limit, outcome), f"milepost-committer-{action}"
            Thread(target=self._run, args=run, name=name, daemon=True).start()
        while reason is None and not outcome.ended.wait(limit.step()):
            reason = limit.over()
        with self._changed:
            if not outcome.ended.is_set():
                limit.is_given_up = True
                stored, completed = self._stored_position, self._frontier.position
                raise CommitterInterrupted(action, str(reason), stored, completed)
        if outcome.error is not None:
            raise outcome.error

    def _run(self, store: Callable[[Limit], None], limit: Limit, outcome: Outcome) -> None:
        try:
            store(limit)
        except Exception as error:  # noqa: BLE001 - raised by who waits, or by the next caller
            outcome.error = error
        with self._changed:
            outcome.ended.set()
            if limit.is_given_up and outcome.error is not None:
                self._error = outcome.error

    def _flush(self, limit: Limit = UNLIMITED) -> None:
        with self._storing:
            self._store_frontier(limit)
        self._store_while_due()

    def _store_last(self, limit: Limit) -> None:
        self._join_timer()
        with self._storing:
            self._store_frontier(limit, is_last=True)

    def _store_while_due(self) -> None:
        """Checks again after each store: completions in the meantime rely on this thread."""
        while self._is_due() and self._storing.acquire(blocking=False):
            try:
                self._store_frontier()
            finally:
                self._storing.release()

    def _store_frontier(self, limit: Limit = UNLIMITED, *, is_last: bool = False) -> None:
        """Called with `_storing` held. Whether storing is still allowed is checked under that lock:
        another thread may have closed the committer while this one waited for it."""
        with self._changed:
            if self._is_abandoned or (self._is_closed and not is_last) or limit.is_given_up:
                return
            sequence, position = self._frontier.sequence, self._frontier.position
            completed = self._frontier.completed
            if position is None or sequence == self._stored_sequence:
                return
        self._store(position)
        with self._changed:
            self._stored_sequence, self._completed_at_store = sequence, completed
            self._stored_position = position
            moved_on = self._frontier.sequence > sequence
            self._due_since = self._clock() if moved_on else None
            self._error = None
            self._changed.notify_all()

    def _is_due(self) -> bool:
        with self._changed:
            if self._is_closed or self._frontier.sequence == self._stored_sequence:
                return False
            if not self._batch_size and not self._interval:
                return True
            # Completed since the last store, or stored by the next one: when a gap closes late,
            # many messages become storable that were counted before.
            completed = self._frontier.completed - self._completed_at_store
            storable = self._frontier.sequence - self._stored_sequence
            return bool(self._batch_size) and max(completed, storable) >= self._batch_size

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise CommitterClosed(
                "The committer is closed: it admits and stores nothing. Create a new one from the "
                "stored checkpoint."
            )

    def _end(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _join_timer(self) -> None:
        if self._timer.ident is not None:
            self._timer.join()

    def _tick(self) -> None:
        """Store at the interval until closed. An error is kept for the next caller, and the store
        is retried an interval later."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed, self._seconds_to_wait())
                if self._is_closed:
                    return
                if self._due_since is None or self._seconds_to_wait() > 0:
                    continue
            try:
                self._flush()
            except Exception as error:  # noqa: BLE001 - handed to the next caller, not swallowed
                with self._changed:
                    self._error = error
                    self._due_since = self._clock()

    def _seconds_to_wait(self) -> float:
        if self._due_since is None:
            return self._interval
        return max(0.0, self._due_since + self._interval - self._clock())
