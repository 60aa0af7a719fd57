"""One stretch of a pipeline's life: connected, with a streaming query that runs until it ends,
fails or is stopped. The next stretch begins with what the database says."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psycopg
from pyspark.errors import StreamingQueryException

from milepost import db, sql
from milepost.checkpoints import Answer, PostgresCheckpointStore
from milepost.errors import StateLost
from milepost.log import start_position
from milepost.pipeline.catch_up import CatchUp, may_catch_up
from milepost.pipeline.offsets import Began, CheckpointDirectory, Resume, resume
from milepost.pipeline.options import complete_conninfo
from milepost.pipeline.report import ask_orders, of
from milepost.pipeline.sinks import Files
from milepost.pipeline.stream import BatchHandler, start_query
from milepost.pipeline.versions import activate, load_versions, lock_versions, version_to_run
from milepost.pipeline.writer import CheckpointMoved, RangeWriter, Written
from milepost.processors.stretch import Stretch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from threading import Event

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from milepost.db import Connection
    from milepost.pipeline.definition import Definition, PipelineOptions
    from milepost.pipeline.report import Reporter
    from milepost.processors.session import Until
    from milepost.records import Position

LOOK_SECONDS = 0.2  # how soon a stop is noticed, and how often there is a look at the query
ORDERS_SECONDS = 1.0  # how soon a swap is noticed by a pipeline that has nothing to do
DIRECTORY_VARIABLE = "MILEPOST_SPARK_DIR"


@dataclass(slots=True)
class QueryRun(Stretch):
    """Two connections: one for the thread that runs batches, one for the one that watches."""

    definition: Definition
    url: str = field(repr=False)
    schema: str
    spark: SparkSession
    reporter: Reporter
    stop: Event
    built: int | None = None  # the version to run; None: whichever is active
    _epoch: int = field(default=0, init=False)
    _looked_at: float = field(default=0.0, init=False)
    _conn: Connection = field(init=False)
    _watching: Connection = field(init=False)
    _directory: CheckpointDirectory = field(init=False)
    _began: Began = field(init=False)
    _opened_at: Position = field(init=False)
    handler: BatchHandler | None = field(default=None, init=False)

    @property
    def conn(self) -> Connection:
        return self._watching

    def is_lost(self) -> bool:
        """Whether one of the connections is gone. Asked of the server: a connection that nobody
        uses does not know."""
        try:
            for conn in (self._conn, self._watching):
                conn.execute(b"")
        except psycopg.OperationalError:
            return True
        return False

    def is_swapped(self) -> bool:
        """Whether another version was made the active one; this one may be dropped by now, and
        its staging with it, under the tasks that are copying."""
        return ask_orders(self._watching, self._options, self.schema).epoch != self._epoch

    def run(self, until: Until) -> None:
        """Until the query ends by itself or a stop is asked for; raises what the batch raised."""
        self.reporter.change(self._watching, "running")
        is_over = self._catch_up(until)
        while not is_over:
            self._wait_while_held()
            is_over = self.stop.is_set() or self._run_query(until)

    def _run_query(self, until: Until) -> bool:
        """Whether that was all; else it was ended because the operators want it to wait."""
        query = start_query(
            self.spark, self.definition, self.url, self.schema, self._directory, self._began,
            self.handler, until,
        )  # fmt: skip
        try:
            return self._watch(query)
        except StreamingQueryException:
            if self.handler is not None and self.handler.error is not None:
                raise self.handler.error from None
            raise
        finally:
            self._end(query)

    def _catch_up(self, until: Until) -> bool:
        """Write what lies more than a batch behind, or everything if the pipeline ends with it.
        Whether that was all there is to do."""
        if self.handler is None or not may_catch_up(self._options, until):
            return False
        catching_up = CatchUp(
            self.definition, self.url, self.schema, self.spark, self.handler.writer, self.reporter,
            self._watching, self.stop, self._options.ends(until),
        )  # fmt: skip
        has_written = catching_up.run(self._opened_at)
        if self._options.ends(until) or self.stop.is_set():
            return True
        if not has_written:
            return False
        # Spark's directory lies behind now: a new one.
        self._began = self._begin()
        self.handler = self._handler()
        return False

    def _watch(self, query: StreamingQuery) -> bool:
        while not query.awaitTermination(LOOK_SECONDS):  # type: ignore[arg-type]  # takes floats
            if self.stop.is_set():
                return True
            self._follow_files()
            if self._look_at_orders():
                return False
            self.reporter.tick(self._watching, lambda: spark_phases(query))
        self._follow_files()
        return True

    def _look_at_orders(self) -> bool:
        """Whether the query is to end, for now. Also while there is nothing to do: after a swap,
        the next message is the new version's."""
        if time.monotonic() - self._looked_at < ORDERS_SECONDS:
            return False
        self._looked_at = time.monotonic()
        if self.handler is None:
            return self._is_held()
        if self.is_swapped():
            raise CheckpointMoved(Answer.FENCED)
        return False

    def _wait_while_held(self) -> None:
        """Our own batches wait by themselves. Spark's file sink asks nobody: its query is ended,
        and the batch in hand is begun again when it goes on, which the sink knows how to do."""
        while self.handler is None and self._is_held() and not self.stop.wait(LOOK_SECONDS):
            self.reporter.tick(self._watching, dict)

    def _is_held(self) -> bool:
        return ask_orders(self._watching, self._options, self.schema).is_held

    def _end(self, query: StreamingQuery) -> None:
        """The batch in hand is finished first."""
        if self.handler is None:
            query.stop()
            return
        with self.handler.gate:
            query.stop()

    @property
    def _options(self) -> PipelineOptions:
        return self.definition.options

    def _open(self) -> None:
        name = f"milepost {self._options.name}"[:63]
        self._conn = self._stack.enter_context(db.connect(self.url, application_name=name))
        self._watching = self._stack.enter_context(db.connect(self.url, application_name=name))
        for conn in (self._conn, self._watching):
            db.detect_dead_peers(conn)
        db.check_schema(self._conn, self.schema)
        with self._conn.transaction():
            lock_versions(self._conn, self._options.name, self.schema)
            self._choose_version()
            self.reporter.register(self._conn)
        if self._options.table is None:
            activate(self._conn, self._options.key, self.schema)
        self._directory = CheckpointDirectory(self.spark, directory_of(self._options, self.schema))
        self._began = self._begin()
        self.handler = self._handler()

    def _choose_version(self) -> None:
        known = load_versions(self._conn, self._options.name, self.schema)
        chosen = version_to_run(self._options, known) if self.built is None else self.built
        self.definition = self.definition.as_built(chosen)
        self.reporter.options = self.definition.options
        self._epoch = next((v.epoch for v in known if v.version == chosen), 0)

    def _handler(self) -> BatchHandler | None:
        sink = self._options.sink
        if isinstance(sink, Files):
            return None
        writer = RangeWriter(
            self._options.key, sink, self._conn, complete_conninfo(self.url, os.environ),
            self.reporter.owner, self.schema, self._epoch,
        )  # fmt: skip
        writer.clean()
        return BatchHandler(
            self.definition, writer, self._directory, self._began, self._opened_at,
            self.reporter, self.stop,
        )  # fmt: skip

    def _begin(self) -> Began:
        """Where Spark's directory fits the checkpoint, go on in it; else begin a new one there.

        The first time, the directory is made before the checkpoint is stored: whoever finds a
        checkpoint without a directory knows that one was lost.
        """
        orders = ask_orders(self._conn, self._options, self.schema)
        if orders.checkpoint is None:
            start = start_position(self._conn, self._options.start_from, self.schema)
            self._opened_at = start
            began = self._begin_anew(start)
            store = PostgresCheckpointStore(self._conn, self.schema)
            store.store(self._options.key, None, start, owner=self.reporter.owner)
            return began
        self._opened_at = orders.checkpoint
        state = self._directory.state()
        if state is not None and self._options.keeps_state and state.began.run != orders.spark_run:
            state = None  # of another database, or of a time before a reset
        keeps_state = self._options.keeps_state
        decided = resume(state, orders.checkpoint, keeps_state=keeps_state)
        if decided is Resume.REFUSE:
            found = "is not its directory" if state is None else f"ends at {state.last_end}"
            has_table = self._options.table is not None
            raise StateLost(
                self._options.name, self._directory.path, orders.checkpoint, found,
                has_table=has_table,
            )  # fmt: skip
        if state is None or decided is Resume.BEGIN_ANEW:
            return self._begin_anew(orders.checkpoint)
        return state.began

    def _begin_anew(self, start: Position) -> Began:
        began = self._directory.begin(start)
        parameters = of(self._options) | {"run": began.run}
        with db.translated(self.schema):
            self._conn.execute(sql.query("pipeline_begin", self.schema), parameters)
        return began

    def _follow_files(self) -> None:
        """Spark's file sink has its own truth; the checkpoint is moved behind it."""
        if self.handler is not None:
            return
        state = self._directory.state()
        if state is None:
            return
        reached = state.last_end if state.is_committed else state.last_start
        store = PostgresCheckpointStore(self._conn, self.schema)
        known = store.load(self._options.key)
        if known is not None and known.position < reached:
            store.store(
                self._options.key, known.position, reached, owner=self.reporter.owner,
                epoch=known.epoch,
            )  # fmt: skip
            self.reporter.batch(Written(0))


def directory_of(
    options: PipelineOptions, schema: str, environ: Mapping[str, str] = os.environ
) -> str:
    """Spark's directory for a version of a pipeline. Ours is on this machine, whatever Spark's
    default file system is; one that was given is taken as Spark understands it."""
    base = options.checkpoint_dir or environ.get(DIRECTORY_VARIABLE)
    if base is None:
        base = Path(".milepost", "spark").absolute().as_uri()
    return f"{base.rstrip('/')}/{schema}/{quote(options.name, safe='')}/v{options.version}"


def spark_phases(query: StreamingQuery) -> dict[str, float]:
    """How long Spark's own phases of the last batch took."""
    progress: Any = query.lastProgress
    return {} if progress is None else {f"spark.{k}": v for k, v in progress.durationMs.items()}
