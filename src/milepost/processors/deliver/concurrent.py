"""Deliver to N handlers concurrently. The committer moves the checkpoint over what is contiguous.

Messages of one key run in order, one at a time; those without a key run freely. Of those that may
start, the oldest does: it is what the checkpoint waits for.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import psycopg

from milepost.checkpoints import Committer
from milepost.db import translated
from milepost.processors.deliver.attempts import Failure, handler_failed
from milepost.processors.deliver.sequential import Delivery
from milepost.processors.deliver.transaction import Conflict
from milepost.records import RecordedMessage
from milepost.runtime import Stopping

if TYPE_CHECKING:
    from milepost.log import Batch
    from milepost.processors.deliver.at_least_once import AtLeastOnce
    from milepost.records import Position

log = logging.getLogger("milepost.processors")


@dataclass(frozen=True, slots=True)
class Ticket:
    """A message and the sequence under which the committer knows it."""

    message: RecordedMessage
    sequence: int


@dataclass(slots=True)
class Lanes:
    _ready: list[tuple[int, Ticket]] = field(default_factory=list)  # a heap, by sequence
    # A key that is being handled -> its later messages.
    _behind: dict[str, deque[Ticket]] = field(default_factory=dict)

    def add(self, ticket: Ticket) -> None:
        key = ticket.message.key
        if key is not None and key in self._behind:
            self._behind[key].append(ticket)
            return
        if key is not None:
            self._behind[key] = deque()
        self._make_ready(ticket)

    def take(self) -> Ticket | None:
        return heappop(self._ready)[1] if self._ready else None

    def done(self, ticket: Ticket) -> None:
        """The next message of the same key may start."""
        key = ticket.message.key
        if key is None:
            return
        rest = self._behind[key]
        if rest:
            self._make_ready(rest.popleft())
        else:
            del self._behind[key]

    def _make_ready(self, ticket: Ticket) -> None:
        heappush(self._ready, (ticket.sequence, ticket))


@dataclass(slots=True)
class ConcurrentDelivery(Delivery):
    """The first failure of any handler or store ends the delivery, and is raised by whatever
    the runner calls next. Single statements only on the connection: threads share it."""

    effects: AtLeastOnce
    _lanes: Lanes = field(default_factory=Lanes, init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    _failure: BaseException | None = field(default=None, init=False)
    _is_closed: bool = field(default=False, init=False)
    committer: Committer = field(init=False)
    _threads: list[threading.Thread] = field(init=False)

    def __post_init__(self) -> None:
        Delivery.__post_init__(self)
        self.committer = Committer(
            self._store,
            batch_size=self.options.checkpoint_every,
            interval=self.options.checkpoint_seconds,
            max_pending=self.options.max_pending,
        )
        self._threads = [
            threading.Thread(target=self._work, name=f"{self.options.name}-{n}", daemon=True)
            for n in range(self.options.max_running)
        ]
        for thread in self._threads:
            thread.start()

    def deliver(self, batch: Batch) -> None:
        self._check()
        if not batch.messages:
            if self.is_advance_due() and not self.committer.pending:
                self._pass_filtered(batch.reached)
            return
        for message in batch.messages:
            ticket = Ticket(message, self._admit())
            with self._changed:
                self._lanes.add(ticket)
                self._changed.notify()
        # What lies between the last message and `reached` was filtered out: it is complete,
        # and counts once everything below it is.
        self.committer.complete(batch.reached, self._admit())

    def drain(self, reached: Position) -> None:
        """Wait until everything that was delivered is complete, and store it."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or not self.committer.pending)
        self._check()
        self._pass_filtered(reached)
        self.committer.flush()

    def close(self) -> None:
        """Finish what is running, start nothing more, store what is contiguous."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        if isinstance(self._failure, Conflict) or self.leases.sync.is_lost():
            self.committer.abandon()
        else:
            self._store_last()

    def _store_last(self) -> None:
        try:
            self.committer.close()
        except psycopg.OperationalError as error:
            if not self.leases.sync.is_lost():
                raise
            # What ended the session is what the supervisor must see. Nothing is lost.
            log.warning("processor=%s last checkpoint not stored: %s", self.options.name, error)

    def _pass_filtered(self, reached: Position) -> None:
        if reached > self.checkpoint:
            self.advanced_at = time.monotonic()
            self.committer.complete(reached, self._admit())

    def _admit(self) -> int:
        """Room for one more, or the reason why there will be none."""
        while True:
            self._check()
            if self.attempts.stop.is_set():
                raise Stopping
            sequence = self.committer.admit(timeout=0.5)
            if sequence is not None:
                return sequence

    def _work(self) -> None:
        while (ticket := self._next()) is not None:
            try:
                self._handle(ticket)
            except BaseException as error:  # noqa: BLE001 - raised to the runner by its next call
                self._fail(error)
                return

    def _next(self) -> Ticket | None:
        with self._changed:
            while not self._is_closed and self._failure is None:
                if (ticket := self._lanes.take()) is not None:
                    return ticket
                self._changed.wait()
        return None

    def _handle(self, ticket: Ticket) -> None:
        failure = self.attempts.run(ticket.message, lambda: self.effects.handle([ticket.message]))
        if failure is not None:
            self._give_up(failure)
        self.committer.complete(ticket.message.position, ticket.sequence)
        with self._changed:
            self._lanes.done(ticket)
            self._changed.notify_all()

    def _give_up(self, failure: Failure) -> None:
        if self.options.on_failure == "stop":
            raise handler_failed(self.options, failure) from failure.error
        with self.leases.sync as conn, translated(self.around.schema):
            self.set_aside(conn, failure)

    def _store(self, new: Position) -> None:
        """Called by the committer, one thread at a time."""
        if new <= self.checkpoint:
            return
        try:
            self.moved(self.store(new), new)
        except Conflict as conflict:
            # Also if the timer stored: nothing may be stored at the end.
            self._fail(conflict)
            raise

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def _check(self) -> None:
        """Raise what went wrong in another thread."""
        with self._changed:
            if self._failure is not None:
                raise self._failure
        self.committer.check()
