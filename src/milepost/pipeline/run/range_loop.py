"""Write the log range by range: what a pipeline without state does, and what fills a rebuild."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from milepost.pipeline.frames import is_unreadable_file, range_frame
from milepost.pipeline.names import TURNS
from milepost.pipeline.run.report import REPORT_SECONDS
from milepost.pipeline.sinks import ORDERED_SINKS

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.pipeline.frames import RangeFrame
    from milepost.pipeline.run.report import PipelineStatus
    from milepost.pipeline.run.setup import Setup
    from milepost.pipeline.source import Planner, Range
    from milepost.pipeline.write import Pending, RangeWriter, Written
    from milepost.records import Position


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

    def output(self, range_: Range, *, in_python: bool = False) -> RangeFrame:
        """Items and versions are made in the order of the messages, which only Python's tasks
        keep."""
        definition = self.setup.definition
        is_ordered = isinstance(definition.options.sink, ORDERED_SINKS)
        messages = range_frame(
            self.setup.spark,
            self.planner,
            range_,
            definition.options.wanted,
            in_python=in_python or is_ordered,
        )
        return replace(messages, frame=definition.function(messages.frame))

    def _stage(self, output: RangeFrame, range_: Range, turn: int) -> Callable[[], Pending]:
        return self.writer.staging_of(
            output.frame, range_.width, turn, is_read_by_spark=output.is_read_by_spark
        )

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
            return self._result(staged.pending)
        except Exception as error:
            if is_unreadable_file(error):
                output = self.output(staged.range, in_python=True)
                return self._stage(output, staged.range, staged.turn)()
            raise

    def _result(self, pending: Future[Pending]) -> Pending:
        """Reports meanwhile: a range may take minutes."""
        while not wait([pending], REPORT_SECONDS).done:
            self.status.tick(self.reports, dict)
        return pending.result()


@dataclass(frozen=True, slots=True)
class _Staged:
    range: Range
    turn: int
    pending: Future[Pending]
