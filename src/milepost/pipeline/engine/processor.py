"""A processor whose handlers run on Spark's executors: `@mp.processor(..., engine="spark")`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

from milepost.pipeline import require_spark
from milepost.pipeline.spark.settings import SparkSettings
from milepost.processors import Processor, Runner

if TYPE_CHECKING:
    from milepost.runtime import Until


@dataclass(slots=True, eq=False)
class SparkProcessor(Processor):
    """Runs its driver. Everything else is as in other processors."""

    settings: SparkSettings = field(default_factory=SparkSettings)

    def using(self, settings: SparkSettings) -> SparkProcessor:
        """The same processor with these settings of Spark."""
        return replace(self, settings=settings)

    def run(self, until: Until = "stopped", stop: Event | None = None) -> None:
        self._refuse_self_checkpointing()
        require_spark()
        from milepost.pipeline.engine.driver import RoundsSession
        from milepost.pipeline.start_spark import spark_session

        spark = spark_session(master=self.settings.master, config=self.settings.config)
        make = partial(RoundsSession, spark=spark)
        Runner(self.definition, self.runtime, stop or Event(), make_session=make).run(until)

    def _refuse_self_checkpointing(self) -> None:
        """They keep work in memory between batches, and a task's memory ends with the task."""
        if self.definition.participants:
            raise ValueError(
                f"Processor {self.name!r}: handlers that checkpoint themselves keep work in memory "
                "between batches, which is not possible on Spark. Remove engine='spark'."
            )
