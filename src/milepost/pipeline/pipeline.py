"""A pipeline as its author uses it: call its function, run it, wait for it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, ClassVar

from milepost import db
from milepost.pipeline import refuse_pooled, require_spark
from milepost.pipeline.spark.settings import SparkSettings
from milepost.pipeline.versions import active_of, load_versions
from milepost.processors import Follower, is_past
from milepost.records import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from pyspark.sql import DataFrame

    from milepost.db import Connection
    from milepost.pipeline.definition import Definition
    from milepost.pipeline.preview import Place, Plan, Preview
    from milepost.pipeline.rebuild import Progress, Rebuilt
    from milepost.pipeline.run import Setup
    from milepost.records import Position
    from milepost.runtime import Runtime, Until
    from milepost.sql import Activity


@dataclass(frozen=True, slots=True)
class Pipeline(Follower):
    """Made by `@mp.pipeline(...)`. Calling it calls the function, as in a unit test."""

    kind = "pipeline"
    activity: ClassVar[Activity] = "pipeline"
    own_connections: ClassVar[int] = 0  # its driver opens its own, which Spark's threads use

    definition: Definition
    runtime: Runtime
    settings: SparkSettings = field(default_factory=SparkSettings)

    @property
    def name(self) -> str:
        """As it was registered."""
        return self.definition.options.name

    def __call__(self, messages: DataFrame) -> DataFrame:
        return self.definition.code(messages)

    def on(self, rows: Sequence[Message | Mapping[str, Any]]) -> DataFrame:
        """The output of its function for a handful of messages, without PostgreSQL: as one batch,
        with the columns that it gets in a run. Those of other topics and types are left out, as in
        a run. A row is a message, or a dict with the arguments of `Message`."""
        require_spark()
        from pyspark.sql import SparkSession

        from milepost.pipeline.frames import given_frame
        from milepost.pipeline.start_spark import spark_session

        options, settings = self.definition.options, self.settings
        messages = [row if isinstance(row, Message) else Message(**row) for row in rows]
        selected = [m for m in messages if options.selection.selects(m)]
        spark = SparkSession.getActiveSession() or spark_session(
            master=settings.master, config=settings.config
        )
        return self.definition.function(given_frame(spark, selected, options.wanted))

    def using(self, settings: SparkSettings) -> Pipeline:
        """The same pipeline with these settings of Spark."""
        return replace(self, settings=settings)

    def run(self, until: Until = "stopped", stop: Event | None = None) -> None:
        """Run its driver in this thread, until `stop` is set or it has caught up."""
        require_spark()
        from milepost.pipeline.run import supervised

        supervised(self._setup(), stop or Event()).run(until)

    def rebuild(
        self,
        to_version: int | None = None,
        *,
        drop_old: bool = False,
        max_messages: int | None = None,
        watch: Callable[[Progress], None] | None = None,
    ) -> Rebuilt:
        """Fill a new version of its table from the log, then let its target show that version."""
        require_spark()
        from milepost.pipeline.rebuild import Rebuild, refuse

        refuse(self.definition.options)  # before Spark is started
        rebuild = Rebuild(
            self._setup(),
            to_version=to_version,
            is_old_dropped=drop_old,
            max_messages=max_messages,
            watch=watch or (lambda _: None),
        )
        with db.acting(self.runtime.url, "pipeline"):
            return rebuild.run()

    def preview(
        self,
        last: int = 1000,
        *,
        after: Place | None = None,
        to: Place | None = None,
        limit: int = 20,
    ) -> Preview:
        """The output of its function for the last messages that it selects, or for those after a
        position or time, and whether its sink would take it. Writes nothing."""
        require_spark()
        from milepost.pipeline.preview import preview

        with db.acting(self.runtime.url, "pipeline"):
            return preview(self._setup(), last=last, after=after, to=to, limit=limit)

    def plan(self) -> Plan:
        """What its next run would read, and what it would change. Writes nothing."""
        require_spark()
        from milepost.pipeline.preview import plan

        with db.acting(self.runtime.url, "pipeline"):
            return plan(self._setup())

    def _has_seen(self, conn: Connection, position: Position) -> bool:
        checkpoint, selection = self._checkpoint(conn), self.definition.options.selection
        return checkpoint is not None and is_past(
            conn, self.runtime.schema, selection, checkpoint, position
        )

    def _checkpoint(self, conn: Connection) -> Position | None:
        active = active_of(load_versions(conn, self.name, self.runtime.schema))
        return None if active is None else active.checkpoint

    def _setup(self) -> Setup:
        from milepost.pipeline.run import Setup
        from milepost.pipeline.start_spark import spark_session

        refuse_pooled(self.runtime.url)  # before Spark is started
        spark = spark_session(master=self.settings.master, config=self.settings.config)
        return Setup(self.definition, self.runtime, spark)
