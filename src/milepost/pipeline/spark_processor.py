"""A processor whose handlers run on Spark's executors: `@mp.processor(..., engine="spark")`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

from milepost.pipeline import require_spark
from milepost.pipeline.pipeline import started_session
from milepost.pipeline.settings import SparkSettings
from milepost.processors.processor import Processor
from milepost.processors.runner import Runner

if TYPE_CHECKING:
    from milepost.processors.session import Until


@dataclass(slots=True, eq=False)
class SparkProcessor(Processor):
    """Runs its driver; the rest is as with any processor."""

    settings: SparkSettings = field(default_factory=SparkSettings)

    def using(self, settings: SparkSettings) -> SparkProcessor:
        """The same, on Spark as the settings say."""
        return replace(self, settings=settings)

    def run(self, until: Until = "stopped", stop: Event | None = None) -> None:
        self._refuse_self_checkpointing()
        require_spark()
        from milepost.pipeline.rounds import Rounds

        make = partial(Rounds, started_session(self.settings))
        Runner(
            self.definition, self.url, self.schema, stop or Event(), make_session=make
        ).run(until)  # fmt: skip

    def _refuse_self_checkpointing(self) -> None:
        """Their work is in the memory of one process; a task's ends with the task."""
        if self.definition.participants:
            raise ValueError(
                f"Processor {self.name!r}: handlers that checkpoint themselves keep their work "
                "between batches, and on Spark nothing is kept. Leave engine='spark' out."
            )
