"""Fill one version of a pipeline's table up to a position: two ways for one thing.

Without state, ranges of the log are read as they are, many messages at once, by all cores. With
state, only Spark's own stream can do it: from the beginning, in a directory of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Protocol, TypeAlias

from milepost.checkpoints import Answer, PostgresCheckpointStore
from milepost.errors import CannotRebuild, CompetingPipeline, RebuildFailed
from milepost.log import start_position
from milepost.pipeline.options import complete_conninfo, parse
from milepost.pipeline.overlap import write_all
from milepost.pipeline.planner import Planner
from milepost.pipeline.query import QueryRun
from milepost.pipeline.range_frame import range_frame
from milepost.pipeline.ranges import Range
from milepost.pipeline.report import Reporter
from milepost.pipeline.sinks import Append as AppendSink
from milepost.pipeline.sinks import PostgresSink, Upsert
from milepost.pipeline.stream import source_options
from milepost.pipeline.writer import CheckpointMoved, RangeWriter
from milepost.records import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from milepost.db import Connection
    from milepost.pipeline.definition import Definition
    from milepost.pipeline.writer import Written

Advanced: TypeAlias = Callable[[Position], None]
FOLLOW_SECONDS = 1.0


class Filler(Protocol):
    """Brings a version's checkpoint forward."""

    def at(self) -> Position:
        """Where it stands."""
        ...

    def reach(self, aim: Position) -> None:
        """Fill up to there; one that cannot stop in the middle may go further."""
        ...


@dataclass(frozen=True, slots=True)
class Site:
    """Where a version is filled: what both ways need."""

    definition: Definition  # as built
    url: str = field(repr=False)
    schema: str
    spark: SparkSession
    reporter: FollowedReporter
    max_messages: int
    conn: Connection

    @property
    def sink(self) -> PostgresSink:
        sink = self.definition.options.sink
        if not isinstance(sink, Upsert | AppendSink):
            raise CannotRebuild(self.definition.options.name, "its sink is no table.")
        return sink

    def checkpoint(self) -> tuple[Position, int]:
        """The version's position and epoch, made if it is not there."""
        options = self.definition.options
        store = PostgresCheckpointStore(self.conn, self.schema)
        found = store.load(options.key)
        if found is None:
            start = start_position(self.conn, options.start_from, self.schema)
            store.store(options.key, None, start, owner=self.reporter.owner)
            found = store.load(options.key)
        if found is None:
            raise dropped(self)
        return found.position, found.epoch

    def is_gone(self) -> bool:
        """Whether the version was dropped, as far as one can know."""
        if self.conn.closed:
            return False
        store = PostgresCheckpointStore(self.conn, self.schema)
        return store.load(self.definition.options.key) is None


def dropped(site: Site) -> RebuildFailed:
    options = site.definition.options
    return RebuildFailed(
        options.name, f"version {options.version} was dropped while it was being filled."
    )


@contextmanager
def planner_of(site: Site) -> Iterator[Planner]:
    """Asks the log what a pipeline's reads can ask."""
    cores = site.spark.sparkContext.defaultParallelism
    given = source_options(site.definition.options, site.url, site.schema, site.max_messages, cores)
    with closing(Planner(parse(given, os.environ))) as planner:
        yield planner


@dataclass(slots=True)
class RangeFill:
    """Static reads of explicit ranges, through the same writer as the stream's batches."""

    site: Site
    planner: Planner
    advanced: Advanced
    _at: Position = field(init=False)
    _writer: RangeWriter = field(init=False)

    def __post_init__(self) -> None:
        site = self.site
        self._at, epoch = site.checkpoint()
        self._writer = RangeWriter(
            site.definition.options.key, site.sink, site.conn,
            complete_conninfo(site.url, os.environ), site.reporter.owner, site.schema, epoch,
        )  # fmt: skip
        self._writer.clean()
        self._writer.prepare(self._output(Range(self._at, self._at)))

    def at(self) -> Position:
        return self._at

    def reach(self, aim: Position) -> None:
        while self._at < aim:
            self._write_to(aim)

    def _write_to(self, aim: Position) -> None:
        ranges = self.planner.ranges(self._at, aim, self.site.max_messages)
        try:
            write_all(ranges, self._writer, self._output, lambda: None, self._merged)
        except CheckpointMoved as moved:
            self._follow(moved.answer)
        except Exception as error:
            # Its staging goes with it, under the tasks that are copying.
            if self.site.is_gone():
                raise dropped(self.site) from error
            raise

    def _merged(self, range_: Range, written: Written) -> None:
        self._at = range_.last
        self.site.reporter.batch(written)
        self.site.reporter.tick(self.site.conn, dict)
        self.advanced(self._at)

    def _output(self, range_: Range) -> DataFrame:
        site = self.site
        return site.definition.function(range_frame(site.spark, self.planner, range_))

    def _follow(self, answer: Answer) -> None:
        """Somebody else had the checkpoint in hand; nothing of the range was written."""
        if answer is Answer.MISSING:
            raise dropped(self.site)
        if answer is Answer.FENCED:
            raise fenced(self.site)
        self._at, _ = self.site.checkpoint()


def fenced(site: Site) -> CompetingPipeline:
    key, owner = site.definition.options.key, site.reporter.owner
    found = PostgresCheckpointStore(site.conn, site.schema).load(key)
    return CompetingPipeline(key.processor, owner, found.owner if found else None, "fenced")


@dataclass(slots=True)
class FollowedReporter(Reporter):
    """Reports, and lets somebody look at the progress now and then."""

    followed: Callable[[], None] = lambda: None
    _followed_at: float = 0.0

    def tick(self, conn: Connection, spark_phases: Callable[[], dict[str, float]]) -> None:
        Reporter.tick(self, conn, spark_phases)
        if self.clock() - self._followed_at >= FOLLOW_SECONDS:
            self._followed_at = self.clock()
            self.followed()


@dataclass(slots=True)
class StreamFill:
    """Spark's stream, run until it has caught up; where exactly that is, it decides."""

    site: Site
    advanced: Advanced

    def at(self) -> Position:
        return self._checkpoint() or Position.BEGINNING

    def reach(self, aim: Position) -> None:
        while (at := self._checkpoint()) is None or at < aim:
            self._catch_up()
            if self._checkpoint() == at:
                raise RebuildFailed(
                    self.site.definition.options.name,
                    f"it stands at {at}, and the log has nothing more to bring it to {aim}, where "
                    "the old version stands.",
                )

    def _checkpoint(self) -> Position | None:
        """None before Spark's directory is made, which the checkpoint follows."""
        store = PostgresCheckpointStore(self.site.conn, self.site.schema)
        found = store.load(self.site.definition.options.key)
        return None if found is None else found.position

    def _catch_up(self) -> None:
        site = self.site
        site.reporter.followed = self._follow
        query = QueryRun(
            site.definition, site.url, site.schema, site.spark, site.reporter, Event(),
            built=site.definition.options.version,
        )  # fmt: skip
        query.open()
        with query:
            try:
                query.run("caught_up")
            except CheckpointMoved as moved:
                raise (dropped if moved.answer is Answer.MISSING else fenced)(site) from None
        self._follow()

    def _follow(self) -> None:
        self.advanced(self.at())
