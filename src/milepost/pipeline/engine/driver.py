"""Message handlers on Spark: in every round, one task for each segment that is behind.

A task handles its segment's messages in order, batch after batch, each in a transaction that also
moves the segment's checkpoint. Nothing is claimed: Spark assigns the tasks. A task that is retried,
or runs twice because Spark speculates, finds that the checkpoint was moved, rolls back, and
continues from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from milepost.log import horizon, start_position
from milepost.pipeline.engine.segment_task import Order, work_off
from milepost.pipeline.spark.connect import refuse_connect
from milepost.pipeline.spark.jvm import driver_ended, refuse_ended_child, refuse_ended_driver
from milepost.processors import Claims, ProcessorSession, standings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from milepost.checkpoints import Checkpoint
    from milepost.records import Position, Segment
    from milepost.runtime import Until


@dataclass(slots=True)
class RoundsSession(ProcessorSession):
    """One session of a processor whose handlers run on Spark: round after round."""

    spark: SparkSession = field(kw_only=True)

    def is_lost(self) -> bool:
        return self.lease.is_lost()

    def meaning_of(self, error: Exception) -> Exception:
        return driver_ended(error) or ProcessorSession.meaning_of(self, error)

    def checkpoint(self) -> Checkpoint | None:
        """Not used: there is one for each segment, without an owner."""
        return None

    def run(self, until: Until) -> None:
        """Until a stop is requested, or until all segments have reached what was the end of the log
        at the start."""
        self.oversee(until)
        end = None if until == "stopped" else self._newest()
        while not self.stop.is_set():
            self.look_at_orders()
            if self.wait_while_paused():
                continue
            self.report_idle()
            if self.watch is not None:
                self.watch.clear()
            newest = self._newest() if end is None else end
            behind = self._behind(newest)
            if behind:
                self._round(behind, newest)
            elif end is not None:
                return
            else:
                refuse_ended_child()
                self.rest(self.options.poll_seconds)

    def _open(self) -> None:
        refuse_connect(self.spark, f"Processor {self.options.name!r} cannot have engine='spark'")
        refuse_ended_driver()
        self.open_lease()
        options = self.options
        claims = Claims(options.key, self.status.owner, options.claim_seconds, self.schema)
        with self.lease as conn:
            start = start_position(conn, options.start_from, self.schema)
            claims.create(conn, options.segments or 1, start)

    def _newest(self) -> Position:
        if self.watch is not None:
            return self.watch.horizon.position
        with self.lease as conn:
            return horizon(conn, self.schema).position

    def _behind(self, newest: Position) -> list[Segment]:
        """Segments with messages to handle, or all if a retry of dead letters is requested."""
        has_retries = self.overseen.take_retries()
        with self.lease as conn:
            found = standings(conn, self.schema, self.options.key)
        segments = ((each.segment, each.position) for each in found)
        return [s for s, at in segments if s is not None and (has_retries or at < newest)]

    def _round(self, segments: list[Segment], end: Position) -> None:
        """One Spark job. A handler's error is returned as a value: an exception would arrive as a
        string, after all of Spark's attempts."""
        order = Order(self.definition, self.runtime.url, self.schema, self.status.owner, end=end)
        context = self.spark.sparkContext
        tasks = context.parallelize(segments, len(segments)).map(partial(work_off, order))
        worked = tasks.collect()
        with self.lease as conn:
            self.status.batch(conn, sum(each.handled for each in worked), end)
        for each in worked:
            each.raise_failure(self.options.name)
