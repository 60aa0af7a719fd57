"""Write the log range by range, without Spark's stream: to catch up, and to fill a rebuild.

A stateless pipeline that is more than a batch behind gains nothing from the stream: its logs and
its planning cost each batch a quarter of a second, in which nothing is read. So the driver writes
all but the last batch by ranges, and the stream starts at the checkpoint reached. A run that ends
when it has caught up needs no stream, which takes seconds to start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from milepost.pipeline.definition import EAGER
from milepost.pipeline.names import TURNS
from milepost.pipeline.source import Range, RangeReader, schema_of

if TYPE_CHECKING:
    from threading import Event

    from pyspark.sql import DataFrame, SparkSession

    from milepost.db import Connection
    from milepost.pipeline.definition import PipelineOptions
    from milepost.pipeline.run.report import PipelineStatus
    from milepost.pipeline.run.setup import Setup
    from milepost.pipeline.source import Planner
    from milepost.pipeline.write import Pending, RangeWriter
    from milepost.records import Position
    from milepost.runtime import Until


def may_catch_up(options: PipelineOptions, until: Until) -> bool:
    """Not where Spark keeps state, nor with a trigger that limits how often batches run."""
    return not options.keeps_state and (options.ends(until) or options.trigger == EAGER)


def ranges_behind(
    planner: Planner, at: Position, max_count: int, stop: Event, *, is_all: bool
) -> Iterator[Range]:
    """Batch after batch, each planned when the one before is staged. `is_all`: to the end of the
    log as it is now. Otherwise the last batch is left to the stream."""
    newest = planner.horizon()
    left = 0 if is_all else max_count
    while not stop.is_set() and planner.about(Range(at, newest)) > left:
        range_ = Range(at, planner.reach(at, newest, max_count))
        yield range_
        at = range_.last
        if not is_all:
            newest = planner.horizon()


@dataclass(frozen=True, slots=True)
class RangeLoop:
    """While one range is merged, Spark stages the next one.

    A merge keeps one core of the server busy, and staging keeps all cores of Spark busy: one after
    the other, each would wait for the other. Merges stay in order, each under the checkpoint's
    fence. What was staged for a range that is then not merged is removed later.
    """

    setup: Setup
    planner: Planner
    writer: RangeWriter
    status: PipelineStatus
    reports: Connection
    before_merge: Callable[[], object] = lambda: None
    after_merge: Callable[[Position], None] = lambda _: None

    def write(self, ranges: Iterable[Range]) -> None:
        """Returns or raises only after all staging has ended."""
        staged: deque[tuple[Range, Future[Pending]]] = deque()
        with ThreadPoolExecutor(TURNS - 1, "milepost-staging") as pool:
            for turn, range_ in enumerate(ranges):
                # Prepared here: the connection belongs to this thread.
                stage = self.writer.staging_of(self.output(range_), range_.width, turn % TURNS)
                staged.append((range_, pool.submit(stage)))
                if len(staged) == TURNS:
                    self._merge(*staged.popleft())
            while staged:
                self._merge(*staged.popleft())

    def output(self, range_: Range) -> DataFrame:
        return self.setup.definition.function(range_frame(self.setup.spark, self.planner, range_))

    def _merge(self, range_: Range, pending: Future[Pending]) -> None:
        ready = pending.result()
        self.before_merge()
        self.status.batch(self.writer.merge(range_, ready))
        self.status.tick(self.reports, dict)
        self.after_merge(range_.last)


def range_frame(spark: SparkSession, planner: Planner, range_: Range) -> DataFrame:
    """The messages of the range that the planner's options select, one task for each part.

    Read as by the source, but planned here: to plan a read through the source, Spark starts two
    processes, and each of them would open a connection."""
    reader, parts = RangeReader(planner.options), planner.split_for_tasks(range_)

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What each task runs, given the number of its part. A closure, because Spark pickles it as
        a whole: the URL in it is bytes that no plan shows."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from reader.batches(parts[number])

    numbers = spark.range(0, len(parts), 1, len(parts))
    return numbers.mapInArrow(read, schema_of(planner.options.columns))
