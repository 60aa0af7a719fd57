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

from milepost.pipeline.definition import EAGER
from milepost.pipeline.frames import is_unreadable_file, range_frame
from milepost.pipeline.names import TURNS
from milepost.pipeline.sinks import ToLog, ToQueue
from milepost.pipeline.source import Range

if TYPE_CHECKING:
    from threading import Event

    from pyspark.sql import DataFrame

    from milepost.db import Connection
    from milepost.pipeline.definition import PipelineOptions
    from milepost.pipeline.run.report import PipelineStatus
    from milepost.pipeline.run.setup import Setup
    from milepost.pipeline.source import Planner
    from milepost.pipeline.write import Pending, RangeWriter, Written
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
    after_merge: Callable[[Position, Written], None] = lambda *_: None

    def write(self, ranges: Iterable[Range]) -> None:
        """Returns or raises only after all staging has ended."""
        staged: deque[_Staged] = deque()
        with ThreadPoolExecutor(TURNS - 1, "milepost-staging") as pool:
            for number, range_ in enumerate(ranges):
                turn = number % TURNS
                # Prepared here: the connection belongs to this thread.
                stage = self._stage(self.output(range_), range_, turn)
                staged.append(_Staged(range_, turn, pool.submit(stage)))
                if len(staged) == TURNS:
                    self._merge(staged.popleft())
            while staged:
                self._merge(staged.popleft())

    def output(self, range_: Range, *, in_python: bool = False) -> DataFrame:
        """Items are made in the order of the messages, which only Python's tasks keep."""
        definition = self.setup.definition
        is_ordered = isinstance(definition.options.sink, ToLog | ToQueue)
        messages = range_frame(
            self.setup.spark,
            self.planner,
            range_,
            definition.options.wanted,
            in_python=in_python or is_ordered,
        )
        return definition.function(messages)

    def _stage(self, output: DataFrame, range_: Range, turn: int) -> Callable[[], Pending]:
        return self.writer.staging_of(output, range_.width, turn)

    def _merge(self, staged: _Staged) -> None:
        range_, ready = staged.range, self._ready(staged)
        self.before_merge()
        written = self.writer.merge(range_, ready)
        self.status.batch(written)
        self.status.tick(self.reports, dict)
        self.after_merge(range_.last, written)

    def _ready(self, staged: _Staged) -> Pending:
        """Where Spark cannot read a file, Python finds another, or the rows in the table, or says
        what is wrong with the file."""
        try:
            return staged.pending.result()
        except Exception as error:
            if is_unreadable_file(error):
                output = self.output(staged.range, in_python=True)
                return self._stage(output, staged.range, staged.turn)()
            raise


@dataclass(frozen=True, slots=True)
class _Staged:
    range: Range
    turn: int
    pending: Future[Pending]
