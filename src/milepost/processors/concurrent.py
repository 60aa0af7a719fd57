"""Deliver to N handlers at once; the committer moves the checkpoint over what is contiguous."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg

from milepost.checkpoints import Answer, CheckpointCommitter, PostgresCheckpointStore
from milepost.db import translated
from milepost.processors.conflict import Conflict, storing
from milepost.processors.failure import (
    Attempts,
    Failure,
    Stopping,
    handler_failed,
    set_aside_statement,
)
from milepost.processors.lanes import Lanes, Ticket

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.log import Batch
    from milepost.processors.advance import Advance
    from milepost.processors.definition import ProcessorOptions
    from milepost.processors.effects import AtLeastOnce
    from milepost.records import Position

log = logging.getLogger("milepost.processors")


@dataclass(slots=True)
class ConcurrentDelivery:
    """The first failure of any handler or store ends the delivery, and is raised by whatever
    the runner calls next. Single statements only on the connection: threads share it."""

    options: ProcessorOptions
    effects: AtLeastOnce
    attempts: Attempts
    advance: Advance
    conn: Connection
    checkpoint: Position
    owner: str
    schema: str
    epoch: int = 0
    _lanes: Lanes = field(default_factory=Lanes, init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    _failure: BaseException | None = field(default=None, init=False)
    _is_closed: bool = field(default=False, init=False)
    committer: CheckpointCommitter = field(init=False)
    _threads: list[threading.Thread] = field(init=False)

    def __post_init__(self) -> None:
        self.committer = CheckpointCommitter(
            self._store,
            batch_size=self.options.checkpoint_every,
            interval=self.options.checkpoint_seconds,
            max_pending=self.options.max_pending,
        )
        self._threads = [
            threading.Thread(target=self._work, name=f"{self.options.name}-{n}", daemon=True)
            for n in range(self.options.at_once)
        ]
        for thread in self._threads:
            thread.start()

    def deliver(self, batch: Batch) -> None:
        self._check()
        if not batch.messages:
            if self.advance.is_due() and not self.committer.pending:
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
        """Finish what is in hand, start nothing more, store what is contiguous."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        if isinstance(self._failure, Conflict) or self.conn.closed:
            self.committer.abandon()
        else:
            self._store_last()

    def _store_last(self) -> None:
        try:
            self.committer.close()
        except psycopg.OperationalError as error:
            if not self.conn.closed:
                raise
            # Whatever ended the session is what the runner is to see; nothing is lost.
            log.warning("processor=%s last checkpoint not stored: %s", self.options.name, error)

    def _pass_filtered(self, reached: Position) -> None:
        target = self.advance.target(self.checkpoint, reached)
        if target is not None:
            self.committer.complete(target, self._admit())

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
        with translated(self.schema):
            self.conn.execute(*set_aside_statement(self.options, failure, self.schema))

    def _store(self, new: Position) -> None:
        """Called by the committer, one thread at a time."""
        if new <= self.checkpoint:
            return
        try:
            self._move(new)
        except Conflict as conflict:
            # Whoever is told of it, the timer too: nothing may be stored at the end.
            self._fail(conflict)
            raise

    def _move(self, new: Position) -> None:
        store = PostgresCheckpointStore(self.conn, self.schema)
        with storing(self.schema):
            answer = store.store(
                self.options.key, self.checkpoint, new, epoch=self.epoch, owner=self.owner
            )
        if answer is not Answer.STORED:
            raise Conflict(answer)
        self.checkpoint = new

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
