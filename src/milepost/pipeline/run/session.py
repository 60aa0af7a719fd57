"""One session of a pipeline: connected, with a streaming query that runs until it ends, fails or is
stopped."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from pyspark.errors import StreamingQueryException

from milepost import db
from milepost.checkpoints import Answer, PostgresCheckpointStore
from milepost.errors import StagingLost, StateLost
from milepost.log import start_position
from milepost.pipeline.run.catch_up import RangeLoop, may_catch_up, ranges_behind
from milepost.pipeline.run.report import ask_orders, of
from milepost.pipeline.run.spark_directory import CheckpointDirectory
from milepost.pipeline.run.stream import BatchHandler, start_query, wait_for_orders
from milepost.pipeline.sinks import Files
from milepost.pipeline.source import Planner
from milepost.pipeline.versions import load_versions, lock_versions, version_to_run
from milepost.pipeline.write import CheckpointMoved, Written
from milepost.runtime import ServerLost, Session, SessionOver, is_server_lost

if TYPE_CHECKING:
    from threading import Event

    from pyspark.sql.streaming.query import StreamingQuery

    from milepost.db import Connection
    from milepost.pipeline.definition import PipelineOptions
    from milepost.pipeline.run.report import Orders, PipelineStatus
    from milepost.pipeline.run.setup import Setup
    from milepost.records import Position
    from milepost.runtime import State, Until

LOOK_SECONDS = 0.2  # how soon a stop is noticed, and how often the query is looked at
ORDERS_SECONDS = 1.0  # how soon an idle pipeline notices a swap
# Spark gives a Python process ten seconds to start, which may be too short on a busy machine. If
# it never starts, because the configuration is wrong, the last error is raised.
_SLOW_WORDS = "Python worker failed to connect back"
_SLOW_STARTS = 5


@dataclass(slots=True)
class PipelineSession(Session):
    """Two connections: one for the thread that runs batches, one for the thread that watches."""

    setup: Setup
    status: PipelineStatus
    stop: Event
    built: int | None = None  # the version to run; None: the active one
    losses: int = 0  # of the server, in a row, before this session
    _epoch: int = field(default=0, init=False)
    _looked_at: float = field(default=0.0, init=False)
    _conn: Connection = field(init=False)
    _watching: Connection = field(init=False)
    _directory: CheckpointDirectory = field(init=False)
    handler: BatchHandler | None = field(default=None, init=False)

    def report_end(self, state: State, error: str | None = None) -> None:
        self.status.change(self._watching, state, error)

    def meaning_of(self, error: Exception) -> Exception:
        if isinstance(error, CheckpointMoved):
            self.report_end("stopped")
            return SessionOver(f"the checkpoint was moved: {error}")
        is_slow = _SLOW_WORDS in str(error) and self.losses < _SLOW_STARTS
        if is_slow or is_passing(error) or self.is_lost():
            return ServerLost(str(error))
        if self.is_swapped():
            return SessionOver("another version was made the active one")
        return error

    def is_lost(self) -> bool:
        """Asks the server: an unused connection does not know that it is lost."""
        try:
            for conn in (self._conn, self._watching):
                conn.execute(b"")
        except psycopg.OperationalError:
            return True
        return False

    def is_swapped(self) -> bool:
        """Whether another version was made the active one. This one may have been dropped since,
        together with its staging, while tasks were copying."""
        return self._orders(self._watching).epoch != self._epoch

    def run(self, until: Until) -> None:
        """Until the query ends by itself or a stop is requested. Raises what the batch raised."""
        self.status.change(self._watching, "running")
        is_over = self._catch_up(until)
        while not is_over:
            self._wait_while_held()
            is_over = self.stop.is_set() or self._run_query(until)

    def _run_query(self, until: Until) -> bool:
        """Whether the run is over. Otherwise the query ended because the operators want it to
        wait."""
        query = start_query(self.setup, self._directory, self.handler, until)
        try:
            return self._watch(query)
        except StreamingQueryException:
            if self.handler is not None and self.handler.error is not None:
                raise self.handler.error from None
            raise
        finally:
            self._end(query)

    def _catch_up(self, until: Until) -> bool:
        """Write all but the last batch, or everything if the run ends then. Whether the run is
        over."""
        if self.handler is None or not may_catch_up(self._options, until):
            return False
        progress, is_all = self.status.progress, self._options.ends(until)
        self._write_ranges(self.handler, is_all=is_all)
        if is_all or self.stop.is_set():
            return True
        if self.status.progress > progress:
            self._begin()  # Spark's directory is behind now: a new one is needed
        return False

    def _write_ranges(self, handler: BatchHandler, *, is_all: bool) -> None:
        writer, max_messages = handler.writer, self._options.max_messages_per_batch
        with closing(Planner(self.setup.source(max_messages))) as planner:
            loop = RangeLoop(
                setup=self.setup,
                planner=planner,
                writer=writer,
                status=self.status,
                reports=self._watching,
                before_merge=lambda: wait_for_orders(writer, self._options, self.stop),
            )
            loop.write(
                ranges_behind(planner, handler.opened_at, max_messages, self.stop, is_all=is_all)
            )

    def _watch(self, query: StreamingQuery) -> bool:
        while not query.awaitTermination(LOOK_SECONDS):  # type: ignore[arg-type]  # takes floats
            if self.stop.is_set():
                return True
            self._follow_files()
            if self._look_at_orders():
                return False
            self.status.tick(self._watching, lambda: spark_phases(query))
        self._follow_files()
        return True

    def _look_at_orders(self) -> bool:
        """Whether the query must end for now. Also asked while there is nothing to do: after a
        swap, the new version handles the next message."""
        if time.monotonic() - self._looked_at < ORDERS_SECONDS:
            return False
        self._looked_at = time.monotonic()
        if self.handler is None:
            return self._is_held()
        if self.is_swapped():
            raise CheckpointMoved(Answer.FENCED)
        return False

    def _wait_while_held(self) -> None:
        """The handler's batches wait by themselves. Spark's file sink does not: its query is ended,
        and its unfinished batch starts again later, which the sink supports."""
        while self.handler is None and self._is_held() and not self.stop.wait(LOOK_SECONDS):
            self.status.tick(self._watching, dict)

    def _is_held(self) -> bool:
        return self._orders(self._watching).is_held

    def _orders(self, conn: Connection) -> Orders:
        return ask_orders(conn, self._options, self.setup.schema)

    def _end(self, query: StreamingQuery) -> None:
        """The handler finishes its batch first."""
        if self.handler is None:
            query.stop()
            return
        with self.handler.gate:
            query.stop()

    @property
    def _options(self) -> PipelineOptions:
        return self.setup.options

    def _open(self) -> None:
        schema = self.setup.schema
        self._conn = self._stack.enter_context(self.setup.connected())
        self._watching = self._stack.enter_context(self.setup.connected())
        with self._conn.transaction():
            lock_versions(self._conn, self._options.name, schema)
            self._choose_version()
            self.status.register(self._conn)
        if self._options.table is None:  # without a view, the version in the code is the active one
            db.run(self._conn, schema, "activate_pipeline", **of(self._options))
        self._directory = CheckpointDirectory(self.setup.spark, self.setup.directory())
        self._begin()

    def _choose_version(self) -> None:
        known = load_versions(self._conn, self._options.name, self.setup.schema)
        chosen = version_to_run(self._options, known) if self.built is None else self.built
        self.setup = self.setup.as_built(chosen)
        self.status.options = self._options
        self._epoch = next((v.epoch for v in known if v.version == chosen), 0)

    def _begin(self) -> None:
        opened_at = self._begin_directory()
        if isinstance(self._options.sink, Files):
            return
        self.handler = BatchHandler(
            definition=self.setup.definition,
            writer=self.setup.writer(self._conn, self.status.owner, self._epoch),
            directory=self._directory,
            opened_at=opened_at,
            status=self.status,
            stop=self.stop,
        )

    def _begin_directory(self) -> Position:
        """Continue in Spark's directory if it fits the checkpoint. Otherwise start a new one there.
        Returns the checkpoint.

        The first time, the directory is made before the checkpoint is stored: a checkpoint without
        a directory shows that the directory was lost.
        """
        orders, directory = self._orders(self._conn), self._directory
        if orders.checkpoint is None:
            start = start_position(self._conn, self._options.start_from, self.setup.schema)
            self._begin_new(start)
            self._store.first(self._options.key, lambda: start, self.status.owner)
            return start
        keeps_state = self._options.keeps_state
        # One of another run belongs to another database, or is older than a reset.
        is_own = directory.open() and (not keeps_state or directory.run == orders.spark_run)
        state = directory.state() if is_own else None
        if state is not None and state.fits(orders.checkpoint):
            return orders.checkpoint
        if keeps_state:
            raise StateLost(
                self._options.name,
                directory.path,
                orders.checkpoint,
                "is not its directory" if state is None else f"ends at {state.last_end}",
                has_table=self._options.table is not None,
            )
        self._begin_new(orders.checkpoint)
        return orders.checkpoint

    def _begin_new(self, start: Position) -> None:
        self._directory.begin(start)
        run = self._directory.run
        db.run(self._conn, self.setup.schema, "pipeline_begin", **of(self._options), run=run)

    @property
    def _store(self) -> PostgresCheckpointStore:
        return PostgresCheckpointStore(self._conn, self.setup.schema)

    def _follow_files(self) -> None:
        """Spark's file sink decides what is done; the checkpoint follows it."""
        if self.handler is not None:
            return
        state = self._directory.state()
        reached = state.last_end if state.is_committed else state.last_start
        key, owner = self._options.key, self.status.owner
        known = self._store.load(key)
        if known is not None and known.position < reached:
            self._store.store(key, known.position, reached, owner=owner, epoch=known.epoch)
            self.status.batch(Written(0))


def is_passing(error: BaseException) -> bool:
    """Whether the driver or an executor lost the server, or the staged rows were lost with it."""
    return isinstance(error, StagingLost) or is_server_lost(error)


def spark_phases(query: StreamingQuery) -> dict[str, float]:
    """How long Spark's own phases of the last batch took."""
    progress: Any = query.lastProgress
    return {} if progress is None else {f"spark.{k}": v for k, v in progress.durationMs.items()}
