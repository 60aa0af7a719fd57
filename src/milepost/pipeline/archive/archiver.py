"""The archiver with Spark as its engine: the same turn, epoch, plan and commit, other files."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from milepost.archive import Archiver, FileSize
from milepost.archive.plan import Plan, next_file
from milepost.archive.session import ArchiverSession
from milepost.errors import ArchiveUnwritable, InvalidArchive
from milepost.pipeline.archive.spark_file import SparkFiles
from milepost.pipeline.archive.write_ranges import archive_with_spark
from milepost.pipeline.source import Planner, Range, SourceOptions, complete_conninfo
from milepost.pipeline.spark.connect import cores_of
from milepost.pipeline.spark.jvm import driver_ended
from milepost.pipeline.spark.settings import SparkSettings
from milepost.pipeline.start_spark import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from milepost.log.history import ArchivedFile
    from milepost.runtime import Until


@dataclass(slots=True)
class SparkArchiverSession(ArchiverSession):
    """Plans as many files as there are cores, and writes them at the same time."""

    spark: SparkSession = field(kw_only=True)

    def meaning_of(self, error: Exception) -> Exception:
        return driver_ended(error) or ArchiverSession.meaning_of(self, error)

    def _next(self, *, is_last: bool) -> Plan | None:
        with self.lease as conn:
            return next_file(conn, self.schema, self._size_of_all(), is_last=is_last)

    def _archive(self, plan: Plan, until: Until) -> None:
        # Long files must not look like a silent process: the watcher reports for those who rest.
        self.overseen.is_idle = True
        try:
            self._write_all(plan)
        except (ArchiveUnwritable, InvalidArchive) as error:
            self._wait_after(error, until)
        finally:
            self.overseen.is_idle = False

    def _write_all(self, plan: Plan) -> None:
        conninfo = complete_conninfo(self.runtime.url, os.environ)
        filing = self._filing
        files = SparkFiles(
            self.spark,
            conninfo,
            self.schema,
            plan.location,
            filing.database,
            self.size.file_bytes,
        )
        archive_with_spark(files, self._ranges(plan, conninfo), filing.epoch, self._commit)

    def _ranges(self, plan: Plan, conninfo: str) -> Iterator[Range]:
        with closing(Planner(SourceOptions(conninfo, self.schema))) as planner:
            for range_ in planner.ranges(plan.after, plan.last, self.size.file_messages):
                if self.stop.is_set():
                    return
                yield range_

    def _commit(self, file: ArchivedFile) -> None:
        with self.lease as conn:
            self._filing.commit(conn, file)
            self._backoff.reset()
            self.status.batch(conn, file.messages, file.last)
        self.status.log.info(
            "%s file=%s messages=%s bytes=%s", self.status, file.name, file.messages, file.bytes
        )

    def _size_of_all(self) -> FileSize:
        cores = cores_of(self.spark)
        return replace(self.size, file_messages=self.size.file_messages * cores)


@dataclass(frozen=True, slots=True)
class SparkArchiver(Archiver):
    """`milepost archive run --engine spark`. Starts Spark when its first session begins."""

    settings: SparkSettings = field(default_factory=SparkSettings)

    def _session(self, *parts: Any, **options: Any) -> ArchiverSession:
        spark = spark_session(master=self.settings.master, config=self.settings.config)
        return SparkArchiverSession(*parts, **options, spark=spark)
