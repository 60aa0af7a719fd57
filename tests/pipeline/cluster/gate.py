"""A gate in the middle of a batch: the task that comes to one message waits there for the test.

All processes of the cluster are on this machine, so that files can tell who waits and who may go.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column
from pyspark.sql.functions import udf

from tests.pipeline.cluster.daemon import LOOK_SECONDS, Daemon

OPEN = "open"


@dataclass(frozen=True, slots=True)
class Gate:
    """Holds the first so many attempts until the test opens it; later ones pass at once."""

    directory: Path
    position: int
    holds: int = 1_000_000

    def through(self, position: Column, value: Column, name: str) -> Column:
        """The value, as the user's own slow code would give it back."""
        return udf(self.passing(name), "string")(position, value)

    def visitors(self, name: str) -> set[int]:
        """The Python workers that came here for this pipeline, whatever has become of them."""
        return {int(path.suffix[1:]) for path in self.directory.glob(f"{name}.*")}

    def wait_for_another(self, driver: Daemon, name: str, *known: int) -> int:
        """A process that came here and is none of these."""
        driver.wait_until(lambda: self.visitors(name) - set(known))
        return min(self.visitors(name) - set(known))

    def open(self) -> None:
        (self.directory / OPEN).touch()

    def passing(self, name: str) -> Callable[[int, str], str]:
        """For the tasks: gives the value back, at the gate's position not at once."""
        place, position, holds = self.directory, self.position, self.holds

        def passes(current: int, value: str) -> str:
            if current == position:
                (place / f"{name}.{os.getpid()}").touch()
                is_late = len(list(place.glob(f"{name}.*"))) > holds
                while not (is_late or (place / OPEN).exists()):
                    time.sleep(LOOK_SECONDS)
            return value

        return passes
