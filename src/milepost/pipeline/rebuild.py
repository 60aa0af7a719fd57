"""Fill a new version of a pipeline's table from the log, then let the target show it.

The old version goes on serving and being written. The new one is brought to the end of the log in
large ranges, then to where the old one stands, again and again, until one transaction finds that
it has come as far: that transaction swaps. What was filled is kept by a checkpoint of its own, so
that a rebuild that was killed goes on where it stopped.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg

from milepost import db, sql
from milepost.checkpoints import CheckpointKey
from milepost.errors import CannotRebuild, MilepostError, RebuildFailed
from milepost.owner import owner_name
from milepost.pipeline import versions
from milepost.pipeline.course import Course, Progress
from milepost.pipeline.fill import FollowedReporter, Site, planner_of
from milepost.pipeline.report import Reporter, State
from milepost.pipeline.runner import is_passing
from milepost.pipeline.sinks import Files, ToLog, ToQueue
from milepost.processors.runner import RECONNECT
from milepost.records import Position

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from milepost.db import Connection
    from milepost.pipeline.definition import Definition, PipelineOptions

DEFAULT_MAX_MESSAGES = 500_000
MOST_LOSSES = 10  # of the server, in a row
_LONGEST_ERROR = 2_000
log = logging.getLogger("milepost.pipelines")


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What became of a rebuild."""

    name: str
    version: int
    replaced: int | None
    position: Position
    rows: int
    seconds: float
    is_old_dropped: bool


def _numbers(known: Sequence[versions.Version]) -> list[int]:
    return [version.version for version in known]


def refuse(options: PipelineOptions) -> None:
    """What cannot be filled anew."""
    sink = options.sink
    if isinstance(sink, ToLog | ToQueue):
        what = "append its messages" if isinstance(sink, ToLog) else "put its jobs"
        raise CannotRebuild(
            options.name, f"it would {what} a second time. Give the new output another name."
        )
    if isinstance(sink, Files):
        raise CannotRebuild(
            options.name,
            "files have no view that could be swapped. Make a pipeline of another name with "
            "another path, and point the readers there when it has caught up.",
        )
    if options.start_from == "end":
        raise CannotRebuild(
            options.name,
            "start_from is 'end', and where that was when it began is not in the log. Give "
            "'beginning', a position or a time.",
        )


@dataclass(slots=True)
class Rebuild:
    """One rebuild of one pipeline."""

    definition: Definition
    url: str = field(repr=False)
    schema: str
    spark: SparkSession
    to_version: int | None = None
    is_old_dropped: bool = False
    max_messages: int = DEFAULT_MAX_MESSAGES
    watch: Callable[[Progress], None] = lambda _: None
    owner: str = field(default_factory=owner_name)
    _losses: int = field(default=0, init=False)
    _course: Course | None = field(default=None, init=False)

    @property
    def _name(self) -> str:
        return self.definition.options.name

    def run(self) -> Rebuilt:
        """Until it is swapped in; a server that restarts meanwhile is waited for."""
        refuse(self.definition.options)
        began = time.monotonic()
        version = self._register()
        reporter = FollowedReporter(
            self.definition.options.as_built(version), self.owner, self.schema
        )
        while (swapped := self._attempt(version, reporter)) is None:
            pass
        replaced, position = swapped
        if self.is_old_dropped and replaced is not None:
            self._drop(replaced)
        return Rebuilt(
            self._name, version, replaced, position, reporter.total_rows,
            time.monotonic() - began, self.is_old_dropped and replaced is not None,
        )  # fmt: skip

    def _attempt(
        self, version: int, reporter: FollowedReporter
    ) -> tuple[int | None, Position] | None:
        """None if the server was lost on the way: what was committed is there."""
        batches = reporter.total_batches
        try:
            with self._connected() as conn:
                return self._reporting(conn, version, reporter)
        except Exception as error:
            self._losses = 0 if reporter.total_batches > batches else self._losses
            if not is_passing(error):
                raise
            self._losses += 1
            if self._losses > MOST_LOSSES:
                raise self._given_up(version, error) from error
            log.warning("rebuild=%s waits: %s", self._name, error)
            time.sleep(RECONNECT.delay_seconds(self._losses, random.random()))  # noqa: S311
            return None

    def _given_up(self, version: int, error: Exception) -> RebuildFailed:
        return RebuildFailed(
            self._name,
            f"the server was lost {self._losses} times in a row while version {version} was filled "
            f"({str(error)[:_LONGEST_ERROR].strip()}). Run the rebuild again when the server is "
            "there: it goes on where it stopped.",
        )

    def _reporting(
        self, conn: Connection, version: int, reporter: FollowedReporter
    ) -> tuple[int | None, Position]:
        """What ends it is left in the listing too."""
        reporter.change(conn, "rebuilding")
        try:
            return self._fill_and_swap(conn, version, reporter)
        except BaseException as error:
            if is_passing(error):
                raise
            is_interrupt = not isinstance(error, Exception)
            text = None if is_interrupt else f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
            self._last_report(conn, reporter, "stopped" if is_interrupt else "failed", text)
            raise

    def _last_report(
        self, conn: Connection, reporter: Reporter, state: State, error: str | None
    ) -> None:
        """What ends the rebuild must not be hidden by a report that fails."""
        try:
            reporter.change(conn, state, error)
        except (psycopg.Error, MilepostError) as failed:
            log.warning("rebuild=%s not reported: %s", self._name, failed)

    def _fill_and_swap(
        self, conn: Connection, version: int, reporter: FollowedReporter
    ) -> tuple[int | None, Position]:
        site = Site(
            self.definition.as_built(version), self.url, self.schema, self.spark, reporter,
            self.max_messages, conn,
        )  # fmt: skip
        if (done := self._done_before(conn, version)) is not None:
            return done
        with planner_of(site) as planner:
            course = self._course = Course(site, planner, self.watch)
            filler = course.filler()
            course.fill(filler)
            reporter.flush(conn)  # the row is the new driver's after the swap
            return course.swap(filler), filler.at()

    def _done_before(self, conn: Connection, version: int) -> tuple[int | None, Position] | None:
        """Whether the swap has happened, though its answer was lost with the server."""
        course, known = self._course, versions.load_versions(conn, self._name, self.schema)
        active = versions.active_of(known)
        if course is None or not course.has_tried or active is None or active.version != version:
            return None
        return course.replaces, active.checkpoint or Position.BEGINNING

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        name = f"milepost rebuild {self._name}"[:63]
        with db.connect(self.url, application_name=name) as conn:
            db.detect_dead_peers(conn)
            db.check_schema(conn, self.schema)
            yield conn

    def _register(self) -> int:
        """The version to fill. A table of its name that nobody knows of is not touched."""
        options = self.definition.options
        with self._connected() as conn, conn.transaction():
            known = versions.load_versions(conn, options.name, self.schema)
            version = versions.version_to_fill(options, known, self.to_version)
            if version not in _numbers(known):
                self._refuse_table(conn, options.as_built(version))
            is_first = self._insert(conn, options.as_built(version))
        log.info("rebuild=%s version=%s begins=%s", options.name, version, is_first)
        return version

    def _insert(self, conn: Connection, options: PipelineOptions) -> bool:
        """Never active from the start, not even if it is the first version of all."""
        parameters = Reporter(options, self.owner, self.schema).facts()
        with db.translated(self.schema):
            done = conn.execute(sql.query("pipeline_register_rebuild", self.schema), parameters)
        return done.rowcount == 1

    def _refuse_table(self, conn: Connection, options: PipelineOptions) -> None:
        table = options.table
        if table is None:
            return
        parameters = {"target_schema": table.schema, "name": table.versioned(options.version)}
        row = conn.execute(sql.query("target_relation", self.schema), parameters).fetchone()
        # Known by now, if another rebuild began since the look before: that comes before its table.
        known = versions.load_versions(conn, options.name, self.schema)
        if row is not None and row[1] is not None and options.version not in _numbers(known):
            raise CannotRebuild(
                options.name,
                f"there is a table {row[0]}.{table.versioned(options.version)} already, and it is "
                "none of its versions. Drop it, or choose another: --to-version N",
            )

    def _drop(self, replaced: int) -> None:
        name = self._name
        try:
            with self._connected() as conn:
                versions.drop(conn, CheckpointKey(name, replaced), self.schema)
        except (psycopg.Error, MilepostError) as error:
            raise RebuildFailed(
                name,
                f"the new version is shown, but version {replaced} could not be dropped ({error}). "
                f"Run: milepost pipelines drop {name} --version {replaced}",
            ) from error
