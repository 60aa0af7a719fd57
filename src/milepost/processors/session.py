"""One stretch of a processor's life: connected, at a known checkpoint, until something ends it.

A conflict, a lost connection or a stop all end the session. The next one begins with what the
database says, so that nothing remembered in memory can be wrong: also whether a commit whose
answer was lost has happened.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from milepost import db
from milepost.checkpoints import Answer, Checkpoint, PostgresCheckpointStore
from milepost.log import Reader, horizon, start_position
from milepost.log.pace import Pace
from milepost.processors.advance import Advance
from milepost.processors.colour import EventLoop
from milepost.processors.concurrent import ConcurrentDelivery
from milepost.processors.conflict import Conflict
from milepost.processors.effects import AtLeastOnce, Effects, ExactlyOnce, ExactlyOnceAsync
from milepost.processors.failure import Attempts, Failure
from milepost.processors.inbox import Inbox
from milepost.processors.parking import Parking, refuse_pooled
from milepost.processors.replay import NO_REPLAY, Replay, load_replay
from milepost.processors.report import ORDERS_SECONDS, Reporter
from milepost.processors.retrying import Retrying
from milepost.processors.segmented.progress import has_seen, refuse_segmented
from milepost.processors.sequential import SequentialDelivery
from milepost.processors.stretch import Stretch
from milepost.processors.turn import Turn

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.log import Batch
    from milepost.processors.definition import Definition, ProcessorOptions
    from milepost.records import Position

Until: TypeAlias = Literal["stopped", "caught_up", "drained"]  # the last two are the same here
STOP_SECONDS = 0.5  # the longest that a processor with nothing to do takes to notice a stop


class Delivery(Protocol):
    """Sequential or concurrent."""

    checkpoint: Position

    def deliver(self, batch: Batch) -> None: ...
    def drain(self, reached: Position) -> None: ...
    def close(self) -> None: ...


@dataclass(slots=True)
class Session(Stretch):
    """Three connections at most: one that reads and waits, one that works and reports, and an
    async one if the handler needs it, or one that keeps the turn behind a pooler."""

    definition: Definition
    url: str = field(repr=False)
    schema: str
    reporter: Reporter
    stop: Event
    _conn: Connection = field(init=False)
    _reading: Connection = field(init=False)
    _effects: Effects = field(init=False)
    _delivery: Delivery = field(init=False)
    _inbox: Inbox | None = field(default=None, init=False)
    _replay: Replay = field(default=NO_REPLAY, init=False)
    _has_more_retries: bool = field(default=False, init=False)
    _turn: Turn | None = field(default=None, init=False)  # at least once
    _has_turn: bool = field(default=False, init=False)

    def is_lost(self) -> bool:
        """Whether one of the connections is gone."""
        is_turn_lost = self._turn is not None and self._turn.conn.closed
        return self._conn.closed or self._reading.closed or self._effects.is_lost() or is_turn_lost

    @property
    def conn(self) -> Connection:
        return self._conn

    def checkpoint(self) -> Checkpoint | None:
        """What the database says now."""
        return PostgresCheckpointStore(self._conn, self.schema).load(self._options.key)

    def run(self, until: Until) -> None:
        """Read and deliver until a stop is asked for, or until caught up."""
        if not self._has_turn:
            if until != "stopped" and self._have_others_caught_up():
                return
            raise Conflict(Answer.FURTHER)
        options = self._options
        reader = Reader(
            self._reading, self._delivery.checkpoint, options.selection, options.batch_size,
            self.schema, keeps_raw=True,
        )  # fmt: skip
        reader.listen()
        pace = Pace(options.poll_seconds)
        while not self.stop.is_set():
            if self._follow_orders():
                continue
            before, batch = reader.after, reader.read()
            self._delivery.deliver(replace(batch, messages=self._replay.marked(batch.messages)))
            self._report(batch)
            if until != "stopped" and not batch.is_full and not self._has_more_retries:
                self._delivery.drain(batch.reached)
                return
            wait_seconds, pace = pace.after(
                is_full=batch.is_full, is_fruitful=batch.reached > before, is_held=batch.is_held
            )
            if wait_seconds and not self._has_more_retries:
                self._rest(wait_seconds)

    @property
    def _options(self) -> ProcessorOptions:
        return self.definition.options

    def _open(self) -> None:
        name = f"milepost {self._options.name}"[:63]
        self._conn = self._stack.enter_context(db.connect(self.url, application_name=name))
        self._reading = self._stack.enter_context(db.connect(self.url, application_name=name))
        for conn in (self._conn, self._reading):
            db.detect_dead_peers(conn)
        db.check_schema(self._conn, self.schema)
        refuse_pooled(self._options, self._conn)
        has_reset_handlers = bool(self.definition.reset_handlers)
        refuse_segmented(self._conn, self.schema, self._options.key)
        self.reporter.register(self._conn, has_reset_handlers=has_reset_handlers)
        self._effects = self._open_effects(name)
        # Before the checkpoint is loaded: who had the turn until now has moved it.
        self._has_turn = self._take_turn(name)
        checkpoint = self._first_checkpoint()
        self._replay = load_replay(self._conn, self.schema, self._options.key, checkpoint.position)
        self._delivery = self._open_delivery(checkpoint)
        self._stack.callback(self._delivery.close)

    def _open_effects(self, application_name: str) -> Effects:
        options = self._options
        loop = EventLoop(options.name) if self.definition.is_async else None
        if loop is not None:
            self._stack.callback(loop.close)
        if options.delivery == "at_least_once":
            if options.inbox:
                self._inbox = Inbox(options.key, self._conn, self.schema, options.inbox_seconds)
            return AtLeastOnce(self.definition, self._conn, loop, self._inbox, self.schema)
        if loop is None:
            return ExactlyOnce(self.definition, self._conn, self.schema)
        conn = loop.run(db.connect_async(self.url, application_name=application_name))
        self._stack.callback(lambda: loop.run(conn.close()))
        loop.run(db.detect_dead_peers_async(conn))
        return ExactlyOnceAsync(self.definition, conn, loop, self.schema)

    def _take_turn(self, application_name: str) -> bool:
        """Exactly once, everybody may try: the row of the checkpoint decides."""
        if self._options.delivery == "exactly_once":
            return True
        key = self._options.key
        if not db.is_pooled(self._conn):
            self._turn = Turn(key, self._conn, self.schema)
        else:
            self._turn = Turn.behind_pooler(key, self.url, self.schema, application_name)
            self._stack.callback(self._turn.close)
        return self._turn.take()

    def _have_others_caught_up(self) -> bool:
        limit = horizon(self._conn, self.schema).position
        return has_seen(self._conn, self.schema, self._options, limit)

    def _open_delivery(self, checkpoint: Checkpoint) -> Delivery:
        attempts = Attempts(self._options, self.stop, self.is_lost, self._on_retry)
        advance = Advance()
        if self._options.at_once > 1 and isinstance(self._effects, AtLeastOnce):
            return ConcurrentDelivery(
                self._options, self._effects, attempts, advance, self._conn, checkpoint.position,
                self.reporter.owner, self.schema, checkpoint.epoch,
            )  # fmt: skip
        is_parking = self._options.on_failure == "park"
        return SequentialDelivery(
            self._options, self._effects, attempts, advance, self._conn, checkpoint.position,
            self.reporter.owner, self.schema, self._options.key, checkpoint.epoch,
            Parking(self._options, self.schema) if is_parking else None,
        )  # fmt: skip

    def _first_checkpoint(self) -> Checkpoint:
        """The stored one; at the very first time, where the processor is to start from. Stored
        at once, so that 'end' means the end as of now, whenever the first message comes."""
        store = PostgresCheckpointStore(self._conn, self.schema)
        if (found := store.load(self._options.key)) is not None:
            return found
        start = start_position(self._conn, self._options.start_from, self.schema)
        store.store(self._options.key, None, start, owner=self.reporter.owner)
        found = store.load(self._options.key)  # ours, or that of whoever was quicker
        return Checkpoint(start) if found is None else found

    def _rest(self, seconds: float) -> None:
        """Until a wake-up comes, or for that long, with an ear for a stop."""
        end = time.monotonic() + seconds
        while not self.stop.is_set() and (left := end - time.monotonic()) > 0:
            if list(self._reading.notifies(timeout=min(left, STOP_SECONDS), stop_after=1)):
                return

    def _follow_orders(self) -> bool:
        """Whether the operators want something else done than reading on."""
        known = self._delivery.checkpoint
        orders = self.reporter.orders(self._conn)
        if orders.has_reset(known):
            raise Conflict(Answer.OLDER)
        if orders.is_fresh and self._turn is not None:
            self._turn.check()
        if orders.is_paused:
            self.reporter.change(self._conn, "paused")
            self.stop.wait(ORDERS_SECONDS)
            return True
        self._has_more_retries = orders.has_retries and self._retry_requested()
        return False

    def _retry_requested(self) -> bool:
        return Retrying(self._options, self._conn, self._effects, self.schema, self.stop).run()

    def _report(self, batch: Batch) -> None:
        if batch.messages:
            self.reporter.batch(self._conn, len(batch.messages), batch.reached)
        else:
            self.reporter.idle(self._conn)
        if self._inbox is not None and not batch.is_full and self.reporter.is_pruning_due():
            self._inbox.prune(self._delivery.checkpoint)

    def _on_retry(self, failure: Failure) -> None:
        self.reporter.claim()
        self.reporter.change(self._conn, "retrying", failure.summary())
