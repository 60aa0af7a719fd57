"""Keep a pipeline running: one streaming query after the other, whatever the weather."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

import psycopg

from milepost import db
from milepost.checkpoints import Answer
from milepost.errors import MilepostError, StagingLost
from milepost.owner import owner_name
from milepost.pipeline.patience import is_server_lost
from milepost.pipeline.query import QueryRun
from milepost.pipeline.report import Reporter, State
from milepost.pipeline.stream import Stopping
from milepost.pipeline.writer import CheckpointMoved
from milepost.processors.runner import RECONNECT, ServerLost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from milepost.pipeline.definition import Definition
    from milepost.processors.session import Until

# What an executor says that has lost its server, as it comes back from Spark: a text.
_LOST_WORDS = ("adbc_driver_manager.OperationalError: IO", "psycopg.OperationalError")
# Spark gives a Python process ten seconds to start, which a busy machine may not have. Where it
# never starts, because the configuration is wrong, it is the last error that is raised.
_SLOW_WORDS = "Python worker failed to connect back"
_SLOW_STARTS = 5
_LONGEST_ERROR = 2_000  # Spark's carry whole stacks of the JVM
log = logging.getLogger("milepost.pipelines")
# What a batch raises is raised by the runner too; py4j would print it once more, with its stack,
# and what it does at all.
logging.getLogger("py4j").setLevel(logging.WARNING)
logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)


@dataclass(slots=True)
class Runner:
    """One driver of a pipeline."""

    definition: Definition
    url: str = field(repr=False)
    schema: str
    spark: SparkSession
    stop: Event = field(default_factory=Event)
    owner: str = field(default_factory=owner_name)
    _losses: int = field(default=0, init=False)
    _was_connected: bool = field(default=False, init=False)
    _reporter: Reporter = field(init=False)

    def __post_init__(self) -> None:
        self._reporter = Reporter(self.definition.options, self.owner, self.schema)

    def run(self, until: Until = "stopped") -> None:
        """Until a stop is asked for, or caught up; raises what ends the pipeline for good."""
        while not self.stop.is_set():
            try:
                with self._open() as query:
                    self._was_connected = True
                    self._run(query, until)
                    return
            except CheckpointMoved as moved:
                log.info("pipeline=%s checkpoint moved: %s", self.definition.options.name, moved)
            except ServerLost as lost:
                self._wait_for_server(lost)

    def _open(self) -> QueryRun:
        """A query. The very first one fails at once if the server cannot be reached; later ones
        wait for it."""
        query = QueryRun(
            self.definition, self.url, self.schema, self.spark, self._reporter, self.stop
        )
        try:
            with db.acting(self.url, "pipeline"):
                query.open()
        except psycopg.OperationalError as error:
            if not self._was_connected:
                raise
            raise ServerLost(str(error)) from error
        return query

    def _run(self, query: QueryRun, until: Until) -> None:
        batches = self._reporter.total_batches
        try:
            with db.acting(self.url, "pipeline"):
                query.run(until)
        except (Stopping, CheckpointMoved) as ended:
            if isinstance(ended, CheckpointMoved):
                self._last_report(query, "stopped")
                raise
        except Exception as error:
            is_slow = _SLOW_WORDS in str(error) and self._losses < _SLOW_STARTS
            if is_slow or is_passing(error) or query.is_lost():
                raise ServerLost(str(error)[:_LONGEST_ERROR]) from error
            if query.is_swapped():
                raise CheckpointMoved(Answer.FENCED) from error
            self._last_report(query, "failed", f"{type(error).__name__}: {error}")
            raise
        finally:
            if self._reporter.total_batches > batches:
                self._losses = 0
        self._last_report(query, "stopped")

    def _last_report(self, query: QueryRun, state: State, error: str | None = None) -> None:
        """What ends the run must not be hidden by a report that fails."""
        try:
            self._reporter.change(query.conn, state, error and error[:_LONGEST_ERROR])
        except (psycopg.Error, MilepostError) as failed:
            name = self.definition.options.name
            log.warning("pipeline=%s state=%s not reported: %s", name, state, failed)

    def _wait_for_server(self, lost: ServerLost) -> None:
        self._losses += 1
        self._reporter.change(None, "reconnecting", str(lost))
        self.stop.wait(RECONNECT.delay_seconds(self._losses, random.random()))  # noqa: S311


def is_passing(error: BaseException) -> bool:
    """Whether it may go away by itself: the server was lost, by the driver or an executor, or what
    was staged went with it."""
    if isinstance(error, StagingLost) or is_server_lost(error):
        return True
    return not isinstance(error, MilepostError) and any(w in str(error) for w in _LOST_WORDS)
