"""Message handlers on Spark: in every round, one task for each segment that is behind.

A task handles its segment's messages in order, batch after batch, each in a transaction that also
moves the segment's checkpoint. Nothing is claimed: Spark assigns the tasks, and a task that is
retried, or runs twice because Spark speculates, finds the checkpoint moved, rolls back, and goes on
from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

import psycopg

from milepost import db
from milepost.log import Reader, horizon, start_position
from milepost.log.pace import Pace
from milepost.pipeline.segment_task import Order, work_off
from milepost.processors.report import ORDERS_SECONDS
from milepost.processors.segmented.claims import Claims
from milepost.processors.segmented.progress import standings
from milepost.processors.stretch import Stretch
from milepost.records import Position

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from milepost.checkpoints import Checkpoint
    from milepost.db import Connection
    from milepost.processors.definition import Definition, ProcessorOptions
    from milepost.processors.report import Reporter
    from milepost.processors.session import Until
    from milepost.records import Segment

STOP_SECONDS = 0.5  # the longest that it takes to notice a stop while there is nothing to do
_LOST_WORD = "psycopg.OperationalError"  # what a task says that has lost its server: a text


@dataclass(slots=True)
class Rounds(Stretch):
    """One stretch of a processor's life whose work Spark does: a connection, and rounds."""

    spark: SparkSession
    definition: Definition
    url: str = field(repr=False)
    schema: str
    reporter: Reporter
    stop: Event
    _conn: Connection = field(init=False)
    _reader: Reader = field(init=False)
    _is_cut_off: bool = field(default=False, init=False)

    @property
    def conn(self) -> Connection:
        return self._conn

    def is_lost(self) -> bool:
        return self._is_cut_off or self._conn.closed or self._reader.conn.closed

    def checkpoint(self) -> Checkpoint | None:
        """There are many, and no owner."""
        return None

    def run(self, until: Until) -> None:
        """Round after round until a stop is asked for, or until all segments are past what there
        was at the start."""
        self._reader.listen()
        pace = Pace(self._options.poll_seconds)
        end = None if until == "stopped" else self._newest()
        while not self.stop.is_set():
            if self._is_paused():
                continue
            newest = self._newest() if end is None else end
            behind = self._behind(newest)
            if behind:
                self._round(behind, newest)
            elif end is not None:
                return
            seconds, pace = pace.after(
                is_full=bool(behind), is_fruitful=bool(behind), is_held=self._is_held()
            )
            self._rest(seconds)

    @property
    def _options(self) -> ProcessorOptions:
        return self.definition.options

    def _open(self) -> None:
        options = self._options
        name = f"milepost {options.name}"[:63]
        self._conn, reading = (
            self._stack.enter_context(db.connect(self.url, application_name=name)) for _ in range(2)
        )
        db.detect_dead_peers(self._conn)
        db.check_schema(self._conn, self.schema)
        has_reset_handlers = bool(self.definition.reset_handlers)
        self.reporter.register(self._conn, has_reset_handlers=has_reset_handlers)
        claims = Claims(options.key, self.reporter.owner, options.claim_seconds, self.schema)
        start = start_position(self._conn, options.start_from, self.schema)
        claims.create(self._conn, options.segments or 1, start)
        self._reader = Reader(reading, schema=self.schema)  # for wake-ups

    def _newest(self) -> Position:
        return horizon(self._conn, self.schema).position

    def _is_held(self) -> bool:
        return horizon(self._conn, self.schema).is_held

    def _behind(self, newest: Position) -> list[Segment]:
        found = standings(self._conn, self.schema, self._options.key)
        return [s.segment for s in found if s.segment is not None and s.position < newest]

    def _round(self, segments: list[Segment], end: Position) -> None:
        """One job of Spark's. What a handler fails with comes back as a value: an exception would
        come back as a text, after as many attempts as Spark makes."""
        order = Order(self.definition, self.url, self.schema, self.reporter.owner, end)
        context = self.spark.sparkContext
        try:
            tasks = context.parallelize(segments, len(segments)).map(partial(work_off, order))
            worked = tasks.collect()
        except Exception as error:
            self._find_out_if_lost(error)
            raise
        self.reporter.batch(self._conn, sum(each.handled for each in worked), end)
        for each in worked:
            each.raise_failure(self._options.name)

    def _find_out_if_lost(self, error: Exception) -> None:
        self._is_cut_off = _LOST_WORD in str(error)
        try:
            self._conn.execute(b"")
        except psycopg.OperationalError:
            self._is_cut_off = True

    def _is_paused(self) -> bool:
        is_paused = self.reporter.orders(self._conn).is_paused
        if is_paused:
            self.reporter.change(self._conn, "paused")
            self.stop.wait(ORDERS_SECONDS)
        else:
            self.reporter.idle(self._conn)
        return is_paused

    def _rest(self, seconds: float) -> None:
        """Until a wake-up comes, or for that long."""
        while not self.stop.is_set() and seconds > 0:
            step = min(seconds, STOP_SECONDS)
            if list(self._reader.conn.notifies(timeout=step, stop_after=1)):
                return
            seconds -= step
