"""What every session of a pipeline does: connect, choose the version, register, and say what an
error means."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg

from milepost import db
from milepost.checkpoints import PostgresCheckpointStore
from milepost.errors import MilepostError, StagingLost, describe
from milepost.pipeline.run.orders import ask_orders
from milepost.pipeline.run.report import of
from milepost.pipeline.spark.failures import explained, in_short, text_of
from milepost.pipeline.spark.jvm import driver_ended, refuse_ended_driver
from milepost.pipeline.versions import load_versions, lock_versions, version_to_run
from milepost.pipeline.write import CheckpointMoved
from milepost.runtime import ServerLost, Session, SessionOver, is_server_lost

if TYPE_CHECKING:
    from threading import Event

    from milepost.db import Connection
    from milepost.pipeline.definition import PipelineOptions
    from milepost.pipeline.run.orders import Orders
    from milepost.pipeline.run.report import PipelineStatus
    from milepost.pipeline.run.setup import Setup
    from milepost.runtime import State

ORDERS_SECONDS = 1.0  # how soon an idle pipeline notices a pause, a reset or a swap
# Spark gives a Python process ten seconds to start.
_SLOW_WORDS = "Python worker failed to connect back"


class SparkBusy(ServerLost):
    """Spark could not start a Python process in time. It is tried again, as after a lost server."""

    state: State = "waiting"

    def __init__(self, _cause: str = "") -> None:
        super().__init__(
            "Spark could not start a Python process within 10 s: this machine is too busy. Nothing "
            "was written. It is tried again."
        )


@dataclass(slots=True)
class PipelineSession(Session):
    setup: Setup
    status: PipelineStatus
    stop: Event
    built: int | None = None  # the version to run; None: the active one
    _epoch: int = field(default=0, init=False)
    _conn: Connection = field(init=False)

    @abstractmethod
    def _begin(self) -> None:
        """Load the state of the version that was chosen."""

    def report_end(self, state: State, error: str | None = None) -> None:
        self.status.change(self._conn, state, error)

    def meaning_of(self, error: Exception) -> Exception:
        if ended := driver_ended(error):
            return ended
        if isinstance(error, CheckpointMoved):
            self.report_end("stopped")
            return SessionOver(f"the checkpoint was moved: {error}")
        if _SLOW_WORDS in text_of(error):
            return self._busy()
        if is_passing(error) or self.is_lost():
            return ServerLost(in_short(error))
        if self.is_swapped():
            return SessionOver("another version was made the active one")
        return explained(error, self._options)

    def _busy(self) -> SparkBusy:
        busy = SparkBusy()
        self.status.state = busy.state
        self.status.write(self._conn, str(busy))
        return busy

    def is_lost(self) -> bool:
        """Asks the server: an unused connection does not know that it is lost."""
        try:
            for conn in self._connections():
                conn.execute(b"")
        except psycopg.OperationalError:
            return True
        return False

    def _connections(self) -> list[Connection]:
        return [self._conn]

    def is_swapped(self) -> bool:
        """Whether another version was made the active one. This one may have been dropped since,
        together with its staging, while tasks were copying."""
        return self._orders(self._conn).epoch != self._epoch

    def _orders(self, conn: Connection) -> Orders:
        return ask_orders(conn, self._options, self.setup.schema)

    @property
    def _options(self) -> PipelineOptions:
        return self.setup.options

    @property
    def _store(self) -> PostgresCheckpointStore:
        return PostgresCheckpointStore(self._conn, self.setup.schema)

    def _open(self) -> None:
        refuse_ended_driver()  # or its refused connections would look like a lost server
        schema = self.setup.schema
        self._conn = self._stack.enter_context(self.setup.connected())
        with self._conn.transaction():
            lock_versions(self._conn, self._options.name, schema)
            self._choose_version()
            self.status.register(self._conn)
        if self._options.table is None:  # without a view, the version in the code is the active one
            db.run(self._conn, schema, "activate_pipeline", **of(self._options))
        try:
            self._begin()
        except MilepostError as error:  # the supervisor reports only what ends a session that runs
            self.report_end("failed", describe(error))
            raise

    def _choose_version(self) -> None:
        known = load_versions(self._conn, self._options.name, self.setup.schema)
        chosen = version_to_run(self._options, known) if self.built is None else self.built
        self.setup = self.setup.as_built(chosen)
        self.status.options = self._options
        self._epoch = next((v.epoch for v in known if v.version == chosen), 0)


def is_passing(error: BaseException) -> bool:
    """Whether the driver or an executor lost the server, or the staged rows were lost with it."""
    return isinstance(error, StagingLost) or is_server_lost(error)
