"""One session of a pipeline that keeps state in Spark, or lets Spark write files: a streaming query
that runs until it ends, fails or is stopped."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from milepost import db
from milepost.checkpoints import Answer
from milepost.errors import StateLost
from milepost.log import start_position
from milepost.pipeline.run.report import of
from milepost.pipeline.run.session import ORDERS_SECONDS, PipelineSession
from milepost.pipeline.run.streams.spark_directory import CheckpointDirectory
from milepost.pipeline.run.streams.stream import BatchHandler, start_query
from milepost.pipeline.sinks import Files
from milepost.pipeline.spark.connect import refuse_connect
from milepost.pipeline.write import CheckpointMoved, Written

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from milepost.db import Connection
    from milepost.records import Position
    from milepost.runtime import State, Until

LOOK_SECONDS = 0.2  # how soon a stop is noticed, and how often the query is looked at
# A query starts a Python process, for which Spark waits ten seconds: many that start together on a
# busy machine would all be late.
_starting = threading.Lock()
_INITIALIZING = "Initializing sources"  # what Spark says of a query until its process has answered


@dataclass(slots=True)
class StreamSession(PipelineSession):
    """Two connections: one for the thread that runs batches, one for the thread that watches."""

    _looked_at: float = field(default=0.0, init=False)
    _watching: Connection = field(init=False)
    _directory: CheckpointDirectory = field(init=False)
    handler: BatchHandler | None = field(default=None, init=False)  # None: Spark writes files

    def report_end(self, state: State, error: str | None = None) -> None:
        self.status.change(self._watching, state, error)

    def _connections(self) -> list[Connection]:
        return [self._conn, self._watching]

    def is_swapped(self) -> bool:
        return self._orders(self._watching).epoch != self._epoch

    def run(self, until: Until) -> None:
        """Until the query ends by itself or a stop is requested. Raises what the batch raised."""
        self.status.change(self._watching, "running")
        is_over = False
        while not is_over:
            self._wait_while_held()
            is_over = self.stop.is_set() or self._run_query(until)

    def _run_query(self, until: Until) -> bool:
        """Whether the run is over. Otherwise the query ended because the operators want it to
        wait."""
        query = self._start(until)
        try:
            return self._watch(query)
        except StreamingQueryException:
            if self.handler is not None and self.handler.error is not None:
                raise self.handler.error from None
            raise
        finally:
            self._end(query)

    def _start(self, until: Until) -> StreamingQuery:
        """One query of the process after the other."""
        with _starting:
            query = start_query(self.setup, self._directory, self.handler, until)
            while query.isActive and query.status["message"] == _INITIALIZING:
                if self.stop.wait(LOOK_SECONDS):
                    break
        return query

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

    def _end(self, query: StreamingQuery) -> None:
        """The handler finishes its batch first."""
        if self.handler is None:
            query.stop()
            return
        with self.handler.gate:
            query.stop()

    def _open(self) -> None:
        what = "write Files" if isinstance(self._options.sink, Files) else "be stateful"
        refuse_connect(self.setup.spark, f"Pipeline {self._options.name!r} cannot {what}")
        self._watching = self._stack.enter_context(self.setup.connected())
        PipelineSession._open(self)

    def _begin(self) -> None:
        self._directory = CheckpointDirectory(self.setup.spark, self.setup.directory())
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
        """Continue in Spark's directory, which must fit the checkpoint. Returns the checkpoint.

        The first time, the directory is made before the checkpoint is stored: a checkpoint without
        a directory shows that the directory was lost.
        """
        orders, directory = self._orders(self._conn), self._directory
        if orders.checkpoint is None:
            start = start_position(self._conn, self._options.start_from, self.setup.schema)
            self._begin_new(start)
            self._store.first(self._options.key, lambda: start, self.status.owner)
            return start
        # One of another run belongs to another database, or is older than a reset.
        is_own = directory.open() and directory.run == orders.spark_run
        state = directory.state() if is_own else None
        is_leading = isinstance(self._options.sink, Files)
        if state is None or not state.fits(orders.checkpoint, is_leading=is_leading):
            raise StateLost(
                self._options.name,
                directory.path,
                orders.checkpoint,
                "is not its directory" if state is None else f"ends at {state.last_end}",
                has_table=self._options.table is not None,
            )
        return orders.checkpoint

    def _begin_new(self, start: Position) -> None:
        self._directory.begin(start)
        run = self._directory.run
        db.run(self._conn, self.setup.schema, "pipeline_begin", **of(self._options), run=run)

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


def spark_phases(query: StreamingQuery) -> dict[str, float]:
    """How long Spark's own phases of the last batch took."""
    progress: Any = query.lastProgress
    return {} if progress is None else {f"spark.{k}": v for k, v in progress.durationMs.items()}
