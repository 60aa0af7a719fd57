"""A pipeline as its author holds it: callable as its function, runnable, waitable."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING

from milepost import db
from milepost.errors import WaitTimedOut
from milepost.log import horizon
from milepost.pipeline import refuse_pooled, require_spark
from milepost.pipeline.settings import SparkSettings
from milepost.pipeline.versions import active_of, load_versions
from milepost.processors.segmented.progress import is_past
from milepost.processors.waiting import holds_within

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from milepost.db import Connection
    from milepost.pipeline.course import Progress
    from milepost.pipeline.definition import Definition
    from milepost.pipeline.rebuild import Rebuilt
    from milepost.processors.session import Until
    from milepost.records import Position

_starting = threading.Lock()  # several pipelines of a process share one session, made once


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Made by `@mp.pipeline(...)`. Calling it calls the function, as in a unit test."""

    definition: Definition
    url: str = field(repr=False)
    schema: str
    settings: SparkSettings = field(default_factory=SparkSettings)

    @property
    def name(self) -> str:
        return self.definition.options.name

    def __call__(self, messages: DataFrame) -> DataFrame:
        return self.definition.function(messages)

    def using(self, settings: SparkSettings) -> Pipeline:
        """The same, on Spark as the settings say."""
        return replace(self, settings=settings)

    def run(self, until: Until = "stopped", stop: Event | None = None) -> None:
        """Run its driver in this thread, until `stop` is set or it has caught up."""
        require_spark()
        from milepost.pipeline.runner import Runner

        Runner(self.definition, self.url, self.schema, self._spark(), stop or Event()).run(until)

    def rebuild(
        self,
        to_version: int | None = None,
        *,
        drop_old: bool = False,
        max_messages: int | None = None,
        watch: Callable[[Progress], None] | None = None,
    ) -> Rebuilt:
        """Fill a new version of its table from the log, then let its target show that one."""
        require_spark()
        from milepost.pipeline.rebuild import DEFAULT_MAX_MESSAGES, Rebuild, refuse

        refuse(self.definition.options)  # before Spark is started
        at_once = DEFAULT_MAX_MESSAGES if max_messages is None else max_messages
        rebuild = Rebuild(
            self.definition, self.url, self.schema, self._spark(), to_version, drop_old, at_once,
            watch or (lambda _: None),
        )  # fmt: skip
        with db.acting(self.url, "pipeline"):
            return rebuild.run()

    def position(self) -> Position | None:
        """The checkpoint of its active version; None before it has ever run."""
        with db.connect(self.url) as conn, db.acting(conn, "read"):
            return self._checkpoint(conn)

    def caught_up(self) -> bool:
        """Whether nothing that it reads lies between its checkpoint and the horizon."""
        with db.connect(self.url) as conn, db.acting(conn, "read"):
            return self._is_past(conn, horizon(conn, self.schema).position)

    def wait_for(self, position: Position, timeout: float = 10.0) -> None:
        """Return once the target shows everything up to `position`: read your own writes. Raises
        WaitTimedOut after `timeout` seconds."""
        with db.connect(self.url) as conn, db.acting(conn, "read"):
            if not holds_within(lambda: self._has_passed(conn, position), timeout):
                checkpoint = self._checkpoint(conn)
                raise WaitTimedOut("pipeline", self.name, position, checkpoint, timeout)

    def _has_passed(self, conn: Connection, position: Position) -> bool:
        """Also where the checkpoint stands lower, if all between was filtered out. Above the
        horizon something may still come that was not."""
        checkpoint = self._checkpoint(conn)
        if checkpoint is not None and checkpoint >= position:
            return True
        return horizon(conn, self.schema).position >= position and self._is_past(conn, position)

    def _is_past(self, conn: Connection, position: Position) -> bool:
        checkpoint, selection = self._checkpoint(conn), self.definition.options.selection
        return checkpoint is not None and is_past(
            conn, self.schema, selection, checkpoint, position
        )

    def _checkpoint(self, conn: Connection) -> Position | None:
        active = active_of(load_versions(conn, self.name, self.schema))
        return None if active is None else active.checkpoint

    def _spark(self) -> SparkSession:
        refuse_pooled(self.url)  # before Spark is started
        return started_session(self.settings)


def started_session(settings: SparkSettings) -> SparkSession:
    """The one of this process."""
    from milepost.pipeline.session import spark_session

    with _starting:
        return spark_session(master=settings.master, config=settings.config)
