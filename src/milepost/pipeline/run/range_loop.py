"""Write the log range by range: what a pipeline without state does, and what fills a rebuild."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.pipeline.frames import is_unreadable_file, range_frame
from milepost.pipeline.names import TURNS
from milepost.pipeline.run.bad_messages.data_failures import is_of_data
from milepost.pipeline.run.bad_messages.letters import retry_letters
from milepost.pipeline.run.bad_messages.search import write_around
from milepost.pipeline.run.bad_messages.skipping import RangeWork
from milepost.pipeline.run.report import REPORT_SECONDS
from milepost.pipeline.sinks import ORDERED_SINKS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from milepost.db import Connection
    from milepost.pipeline.run.orders import Orders
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
    before_merge: Callable[[], Orders | None] = lambda: None
    after_merge: Callable[[Position, Written], None] = lambda *_: None
    is_stopped: Callable[[], bool] = lambda: False

    def write(self, ranges: Iterable[Range]) -> None:
        """Returns or raises only after all staging has ended."""
        staged: deque[_Staged] = deque()
        with ThreadPoolExecutor(TURNS - 1, "milepost-staging") as pool:
            for number, range_ in enumerate(ranges):
                turn = number % TURNS
                staged.append(_Staged(range_, turn, self._begin(range_, turn, pool)))
                if len(staged) == TURNS:
                    self._merge(staged.popleft())
            while staged:
                self._merge(staged.popleft())

    def output(self, range_: Range, *, in_python: bool = False) -> DataFrame:
        return range_output(self.setup, self.planner, range_, in_python=in_python)

    def staged(self, range_: Range, turn: int, *, in_python: bool = False) -> Pending:
        """Where Spark cannot read a file, Python finds another, or the rows in the table, or says
        what is wrong with the file."""
        try:
            return self._stage(self.output(range_, in_python=in_python), range_, turn)()
        except Exception as error:
            if in_python or not is_unreadable_file(error):
                raise
            return self.staged(range_, turn, in_python=True)

    def merge(self, range_: Range, pending: Pending) -> Orders | None:
        """Returns what the operators want."""
        orders = self.before_merge()
        written = self.writer.merge(range_, pending)
        self.status.batch(written)
        self.status.tick(self.reports, dict)
        self.after_merge(range_.last, written)
        return orders

    def _begin(self, range_: Range, turn: int, pool: ThreadPoolExecutor) -> Future[Pending]:
        """A function that starts a job itself may fail because of a message, too. The merge, which
        comes in order, handles that."""
        try:
            # Prepared here: the connection belongs to this thread.
            stage = self._stage(self.output(range_), range_, turn)
        except Exception as error:
            if not self._is_of_data(error):
                raise
            failed: Future[Pending] = Future()
            failed.set_exception(error)
            return failed
        return pool.submit(stage)

    def _stage(self, output: DataFrame, range_: Range, turn: int) -> Callable[[], Pending]:
        return self.writer.staging_of(output, range_.width, turn)

    def _merge(self, staged: _Staged) -> None:
        try:
            orders = self.merge(staged.range, self._ready(staged))
        except Exception as error:
            if not self._is_of_data(error):
                raise
            write_around(staged.range, error, RangeWork(self, staged.turn))
        else:
            if orders is not None and orders.has_retries:
                retry_letters(self, staged.turn)

    def _ready(self, staged: _Staged) -> Pending:
        try:
            return self._result(staged.pending)
        except Exception as error:
            if is_unreadable_file(error):
                return self.staged(staged.range, staged.turn, in_python=True)
            raise

    def _result(self, pending: Future[Pending]) -> Pending:
        """Reports meanwhile: a range may take minutes."""
        while not wait([pending], REPORT_SECONDS).done:
            self.status.tick(self.reports, dict)
        return pending.result()

    def _is_of_data(self, error: Exception) -> bool:
        return is_of_data(error, self.setup.definition.code)


@dataclass(frozen=True, slots=True)
class _Staged:
    range: Range
    turn: int
    pending: Future[Pending]


def range_output(
    setup: Setup, planner: Planner, range_: Range, *, in_python: bool = False
) -> DataFrame:
    """What the function makes of a range. Items and versions are made in the order of the messages,
    which only Python's tasks keep."""
    definition = setup.definition
    is_ordered = isinstance(definition.options.sink, ORDERED_SINKS)
    messages = range_frame(
        setup.spark,
        planner,
        range_,
        definition.options.wanted,
        in_python=in_python or is_ordered,
    )
    return definition.function(messages)
