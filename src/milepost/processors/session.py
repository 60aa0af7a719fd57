"""One session of a processor without segments: read, deliver, report, wait."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING

import psycopg

from milepost import db
from milepost.checkpoints import Answer, Checkpoint, PostgresCheckpointStore
from milepost.errors import (
    HandlerFailed,
    ParkingFull,
    SegmentsGivenBack,
    TransactionEnded,
)
from milepost.log import Batch, History, horizon, read_batch, start_position
from milepost.processors.deliver.concurrent import ConcurrentDelivery
from milepost.processors.deliver.sequential import Delivery, SequentialDelivery
from milepost.processors.deliver.transaction import Conflict, Effects
from milepost.processors.oversight import Overseen, Oversight
from milepost.processors.progress import has_seen, refuse_segmented
from milepost.processors.replay.replay import NO_REPLAY, Replay, load_replay
from milepost.processors.segments.claims import Claims
from milepost.processors.segments.pool import ThreadLeases, thread_leases
from milepost.processors.segments.work import Surroundings
from milepost.processors.set_aside.parking import refuse_pooled
from milepost.processors.set_aside.retry import Retrying
from milepost.processors.standby import Standby
from milepost.processors.turn import Turns
from milepost.runtime import EventLoop, Session, SessionOver, waking
from milepost.telemetry import otel

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.db import Connection
    from milepost.log import Horizon
    from milepost.processors.definition import Definition, ProcessorOptions
    from milepost.processors.deliver.attempts import Failure
    from milepost.processors.status import ProcessorStatus
    from milepost.records import Position
    from milepost.runtime import Lease, Runtime, State, Until, Watch

STOP_SECONDS = 0.5  # the longest that a processor with nothing to do takes to notice a stop


@dataclass(slots=True)
class ProcessorSession(Session):
    """What the sessions of all kinds of processors have in common."""

    definition: Definition
    runtime: Runtime
    status: ProcessorStatus
    stop: Event
    standby: Standby
    lease: Lease = field(init=False)
    loop: EventLoop | None = field(default=None, init=False)
    overseen: Overseen = field(init=False)
    watch: Watch | None = field(default=None, init=False)
    _limit: Horizon | None = field(default=None, init=False)  # how far it reads, without a watcher
    _history: History = field(init=False)

    def __post_init__(self) -> None:
        self._history = History(self.schema)

    @property
    def options(self) -> ProcessorOptions:
        return self.definition.options

    @property
    def schema(self) -> str:
        return self.runtime.schema

    def report_end(self, state: State, error: str | None = None) -> None:
        with self.lease as conn:
            self.status.change(conn, state, error)

    def meaning_of(self, error: Exception) -> Exception:
        if isinstance(error, Conflict):
            return self._meaning_of_conflict(error)
        meaning = Session.meaning_of(self, error)
        if isinstance(meaning, HandlerFailed | ParkingFull | SegmentsGivenBack | TransactionEnded):
            self.status.claim()
        return meaning

    def _meaning_of_conflict(self, conflict: Conflict) -> Exception:
        """After a reset the next session begins immediately, from there."""
        if not conflict.is_competitor:
            return SessionOver("the checkpoint was moved")
        return SessionOver("another instance works", self.standby.wait)

    def checkpoint(self) -> Checkpoint | None:
        """What the database says now. There is one, without segments."""
        with self.lease as conn:
            return PostgresCheckpointStore(conn, self.schema).load(self.options.key)

    def open_lease(self) -> None:
        # What is being done is finished after a stop, and the last report needs a connection.
        self.lease = self.runtime.connections.lease(self.options.name, Event())
        self._stack.callback(self.lease.close)
        with self.lease as conn:
            db.check_schema(conn, self.schema)
            refuse_pooled(self.options, conn)
            self.status.register(conn, self.definition)
        if self.definition.segments is None:
            self._leave()  # signs of life of an earlier session
            self._stack.callback(self._leave)
        if self.definition.is_async:
            self.loop = EventLoop(self.options.name)
            self._stack.callback(self.loop.close)

    def _leave(self) -> None:
        options = self.options
        claims = Claims(options.key, self.status.owner, options.claim_seconds, self.schema)
        with suppress(psycopg.OperationalError), self.lease as conn:
            claims.leave(conn)

    def oversee(self, until: Until, *, listens: bool = True) -> None:
        """From here on operators are heard. Without a watcher where the run ends by itself."""
        oversight = self.runtime.part(Oversight)
        watching = (
            self.runtime.watching(self.options.poll_seconds, listens=listens)
            if until == "stopped"
            else nullcontext()
        )
        self.watch = self._stack.enter_context(watching)
        if self.watch is not None:
            self._stack.enter_context(waking(self.stop, self.watch.wake))
        beats = self.watch is not None and self.definition.segments is None
        self.overseen = self._stack.enter_context(
            oversight.of(self.status, self.watch, beats=beats)
        )

    def surroundings(self, on_retry: Callable[[Failure], None]) -> Surroundings:
        owner, timing = self.status.owner, self.runtime.timing
        return Surroundings(
            self.definition, owner, self.schema, self.stop, on_retry, timing, self.status.losses
        )

    def read(self, after: Position, batch_size: int) -> Batch:
        limit = None if self.watch is None else self.watch.horizon
        if limit is not None and limit.position <= after:  # without a connection
            return Batch([], after, is_full=False, is_held=limit.is_held)
        with self.lease as conn:
            if limit is not None:
                return self._read(conn, after, limit, batch_size)
            return self._read_without_watch(conn, after, batch_size)

    def _read_without_watch(self, conn: Connection, after: Position, batch_size: int) -> Batch:
        """In a run that ends by itself. It asks for the horizon when it has read up to the last
        one, and not at every batch: that would be a tenth of its time."""
        if self._limit is None or self._limit.position <= after:
            self._limit = horizon(conn, self.schema)
            return self._read(conn, after, self._limit, batch_size)
        batch = self._read(conn, after, self._limit, batch_size)
        if batch.is_full:
            return batch
        self._limit = horizon(conn, self.schema)
        return replace(batch, is_full=self._limit.position > batch.reached)

    def _read(self, conn: Connection, after: Position, limit: Horizon, batch_size: int) -> Batch:
        began = time.perf_counter()
        batch = read_batch(
            conn,
            after,
            limit,
            self.options.selection,
            batch_size,
            self.schema,
            history=self._history,
        )
        if otel is not None and batch.messages:
            topics, name = self.options.selection.topics, self.options.name
            otel.received("read", len(batch.messages), began, topics, name)
        return batch

    def rest(self, seconds: float) -> None:
        """Until it is woken, or for that long. Notices a stop."""
        self.overseen.is_idle = True
        while seconds > 0 and not self.stop.is_set():
            step = min(seconds, STOP_SECONDS)
            if self.watch is None:
                self.stop.wait(step)
            elif self.watch.wait(step):
                break
            seconds -= step
        self.overseen.is_idle = False

    def look_at_orders(self) -> bool:
        """Whether there is a new answer to what the operators want."""
        oversight = self.runtime.part(Oversight)
        if oversight.is_late(self.overseen):
            with self.lease as conn:
                oversight.ask(conn, [self.overseen])
        return self.overseen.has_news()

    def wait_while_paused(self) -> bool:
        """Whether the operators want the processor to pause; then some time has passed."""
        if not self.overseen.orders.is_paused:
            return False
        with self.lease as conn:
            self.status.change(conn, "paused")
        self.rest(self.runtime.timing.orders_seconds)
        return True

    def report_idle(self) -> None:
        """There is nothing to do. Signs of life are the watcher's."""
        if self.status.state in ("starting", "paused", "retrying", "reconnecting"):
            with self.lease as conn:
                self.status.change(conn, "running")

    def report_retry(self, failure: Failure) -> None:
        self.report_error(failure.summary())

    def report_error(self, error: str) -> None:
        self.status.claim()
        with self.lease as conn:
            self.status.change(conn, "retrying", error)


@dataclass(slots=True)
class PlainSession(ProcessorSession):
    """One connection, for reading and for batches; an async one if the handler needs it."""

    _around: Surroundings = field(init=False)
    _leases: ThreadLeases = field(init=False)
    _effects: Effects = field(init=False)
    _delivery: Delivery = field(init=False)
    _replay: Replay = field(default=NO_REPLAY, init=False)
    _has_more_retries: bool = field(default=False, init=False)
    _has_turn: bool = field(default=False, init=False)
    _reached: Position = field(init=False)

    def is_lost(self) -> bool:
        return self._leases.is_lost()

    def run(self, until: Until) -> None:
        """Read and deliver until a stop is requested, or until caught up."""
        if not self._has_turn:
            if until != "stopped" and self._have_others_caught_up():
                return
            raise Conflict(Answer.FURTHER)
        self.oversee(until)
        while not self.stop.is_set():
            if self._follow_orders():
                continue
            if self.watch is not None:
                self.watch.clear()
            batch = self.read(self._reached, self.options.batch_size)
            self._reached = batch.reached
            batch = replace(batch, messages=self._replay.marked(batch.messages))
            self._delivery.deliver(batch)
            self._report(batch)
            if batch.is_full or self._has_more_retries:
                continue
            if until != "stopped":
                self._delivery.drain(batch.reached)
                return
            self.rest(self.options.poll_seconds)

    def _open(self) -> None:
        self.open_lease()
        options = self.options
        with self.lease as conn:
            refuse_segmented(conn, self.schema, options.key)
        self._around = self.surroundings(self.report_retry)
        self._leases = thread_leases(
            self.definition, self.runtime.connections, self.schema, self.loop, Event(), self.lease
        )
        self._stack.callback(self._leases.close)
        self._effects = self._leases.effects()
        # Before the checkpoint is loaded: the instance that had the turn until now has moved it.
        self._has_turn = self._take_turn()
        with self.lease as conn:
            checkpoint = PostgresCheckpointStore(conn, self.schema).first(
                options.key,
                lambda: start_position(conn, options.start_from, self.schema),
                self.status.owner,
            )
            self._replay = load_replay(conn, self.schema, options.key, checkpoint.position)
        self._reached = checkpoint.position
        self._delivery = self._open_delivery(checkpoint)
        self._stack.callback(self._delivery.close)

    def _take_turn(self) -> bool:
        """Exactly once, everybody may try: the row of the checkpoint decides."""
        if self.options.delivery == "exactly_once":
            return True
        turns, key, owner = self.runtime.part(Turns), self.options.key, self.status.owner
        has_turn = turns.take(key, owner)
        if has_turn:
            self._stack.callback(turns.release, key, owner)
        return has_turn

    def _have_others_caught_up(self) -> bool:
        with self.lease as conn:
            limit = horizon(conn, self.schema).position
            return has_seen(conn, self.schema, self.options, limit)

    def _open_delivery(self, checkpoint: Checkpoint) -> Delivery:
        kind: type[Delivery] = SequentialDelivery
        if self.options.max_running > 1:  # at least once: ProcessorOptions refuses anything else
            kind = ConcurrentDelivery
        return kind(
            self._around,
            self._leases,
            self._effects,
            key=self.options.key,
            checkpoint=checkpoint.position,
            epoch=checkpoint.epoch,
            parking=self._around.parking(),
        )

    def _follow_orders(self) -> bool:
        """Whether the operators want something other than reading on."""
        if self.look_at_orders():
            self._refuse_reset(self.overseen.orders.checkpoint)
            if self.options.delivery == "at_least_once":
                self.runtime.part(Turns).check(self.options.key)
        if self.wait_while_paused():
            return True
        self._has_more_retries = (
            self.overseen.orders.has_retries
            and Retrying(self._around, self.lease, self._effects).run()
        )
        return False

    def _refuse_reset(self, asked: Position | None) -> None:
        """What was asked a moment ago may be older than what was stored since."""
        known = self._delivery.checkpoint
        if asked is not None and asked < known:
            current = self.checkpoint()
            if current is not None and current.position < known:
                raise Conflict(Answer.OLDER)

    def _report(self, batch: Batch) -> None:
        if not batch.messages:
            self.report_idle()
        else:
            with self.lease as conn:
                self.status.batch(conn, len(batch.messages), batch.reached)
