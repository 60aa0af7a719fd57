"""The pipelines of the demo: revenue by day and by customer. Their driver is a separate process,
`python -m milepost_demo.pipelines SCHEMA`, and a rebuild is the same command with `rebuild`."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Thread
from typing import IO, TYPE_CHECKING

from milepost.app import Milepost
from milepost.errors import MilepostError
from milepost.pipeline.sinks import Upsert
from milepost.pipeline.spark.settings import SparkSettings
from milepost_demo.place import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BY_DAY, BY_CUSTOMER = "revenue-by-day", "revenue-by-customer"
BATCH_BEGAN = "batch began"
ORDER = "customer string, day date, total bigint"
# Small, so that there are many batches that a kill can interrupt.
MESSAGES_PER_BATCH = 5_000
SETTINGS = SparkSettings("local[2]", {"spark.ui.enabled": "false", "spark.driver.memory": "1g"})


def make_pipelines(mp: Milepost, at_batch: Callable[[], None]) -> None:
    for name, column in ((BY_DAY, "day"), (BY_CUSTOMER, "customer")):
        mp.pipeline(
            name,
            topics=["orders"],
            sink=Upsert(f"{mp.schema}.revenue_by_{column}", key=[column], add=["orders", "total"]),
            max_messages_per_batch=MESSAGES_PER_BATCH,
        )(partial(_revenue, column, at_batch))


def _revenue(column: str, at_batch: Callable[[], None], messages: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    at_batch()
    orders = messages.select(f.from_json("data", ORDER).alias("order")).select("order.*")
    return orders.groupBy(column).agg(f.count("*").alias("orders"), f.sum("total").alias("total"))


class DriverFailed(MilepostError):
    """A driver or a rebuild of the demo ended unexpectedly."""


@dataclass(frozen=True, slots=True)
class Driver:
    process: Popen[str]
    errors: IO[str]

    @property
    def output(self) -> IO[str]:
        """Read line by line. Not with communicate(), which would close stdin."""
        if self.process.stdout is None:
            raise RuntimeError("The driver's output is not a pipe.")
        return self.process.stdout

    def wait_for_batches(self, count: int) -> None:
        """Until it is in the middle of its `count`-th batch from now."""
        for line in self.output:
            count -= BATCH_BEGAN in line
            if not count:
                return
        raise self.failed("the driver")

    def failed(self, what: str) -> DriverFailed:
        """With the last line of its stderr, which is the error."""
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().strip().rpartition("\n")[2]
        return DriverFailed(f"{what} ended with code {code}: {said}")

    def kill(self) -> None:
        """Together with its Java process, which is in the same process group."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def rebuild(place: Place, directory: Path) -> int:
    """Fill a new version of revenue_by_day and swap it in; returns its number."""
    with started_driver(place, directory, "rebuild") as driver:
        output = list(driver.output)
        if driver.process.wait() != 0:
            raise driver.failed("the rebuild")
    return int(output[-1])


@contextmanager
def started_driver(place: Place, directory: Path, *arguments: str) -> Iterator[Driver]:
    """The driver is killed at the end of the block."""
    with tempfile.TemporaryFile("w+") as errors:
        process = place.start(
            "pipelines",
            *arguments,
            directory=directory,
            stdin=PIPE,  # closed when this process ends
            stdout=PIPE,
            stderr=errors,
            start_new_session=True,
        )
        driver = Driver(process, errors)
        try:
            yield driver
        finally:
            driver.kill()


def _die_with_the_demo() -> None:
    """When the demo ends, in any way, its end of the pipe is closed. Kills Java too."""

    def watch() -> None:
        sys.stdin.read()
        os.killpg(0, signal.SIGKILL)

    Thread(target=watch, daemon=True).start()


def main() -> None:
    _die_with_the_demo()
    mp = Milepost(schema=sys.argv[1])
    if sys.argv[2:] == ["rebuild"]:
        make_pipelines(mp, lambda: None)
        rebuilt = mp.pipelines[BY_DAY].using(SETTINGS).rebuild()
        sys.stdout.write(f"{rebuilt.version}\n")
        return
    # For the process that started this one: between two of these lines a batch is running.
    make_pipelines(mp, lambda: print(BATCH_BEGAN, flush=True))  # noqa: T201
    mp.run(spark=SETTINGS)


if __name__ == "__main__":
    main()
