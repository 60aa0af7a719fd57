"""Running pipelines in tests, in the session that all of them share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Message, Milepost, append
from milepost.pipeline.pipeline import Pipeline
from milepost.pipeline.run import Setup, supervised
from milepost.runtime import Supervisor, Until
from tests.waiting import wait_until

ORDER = "customer string, total bigint, day string"


def runner_of(pipeline: Pipeline, spark: SparkSession) -> Supervisor:
    return supervised(setup_of(pipeline, spark), threading.Event())


def setup_of(pipeline: Pipeline, spark: SparkSession) -> Setup:
    return Setup(pipeline.definition, pipeline.runtime, spark)


def catch_up(pipeline: Pipeline, spark: SparkSession) -> None:
    """Until it has done everything that is in the log now."""
    runner_of(pipeline, spark).run("caught_up")


def follow(pipeline: Pipeline, spark: SparkSession) -> None:
    """The same by a run that does not end by itself, and is stopped then."""
    with running(pipeline, spark) as started:
        wait_until(lambda: started.error is not None or pipeline.caught_up())


@dataclass
class Running:
    """A pipeline that runs in a thread of its own."""

    runner: Supervisor
    until: Until = "stopped"
    error: BaseException | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.runner.run(self.until)
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    def stop(self) -> None:
        self.runner.stop.set()
        self.join()

    def join(self) -> None:
        self.thread.join(60)
        assert not self.thread.is_alive()


@contextmanager
def running(pipeline: Pipeline, spark: SparkSession) -> Iterator[Running]:
    """For the length of the block; what ended it too early is raised."""
    started = Running(runner_of(pipeline, spark))
    try:
        yield started
    finally:
        started.stop()
    if started.error is not None:
        raise started.error


def orders(first: int, count: int, topic: str = "orders") -> list[Message]:
    """Orders of ten customers on seven days."""
    return [
        Message(
            "OrderPlaced",
            {"customer": f"c{n % 10}", "total": n, "day": f"d{n % 7}"},
            key=f"c{n % 10}",
            topic=topic,
        )
        for n in range(first, first + count)
    ]


def place(mp: Milepost, first: int, count: int, topic: str = "orders") -> None:
    with mp.connect() as conn:
        append(conn, *orders(first, count, topic))


def parsed(messages: DataFrame) -> DataFrame:
    """The columns of the orders."""
    return messages.select(f.from_json("data", ORDER).alias("o")).select("o.*")


def per_customer(messages: DataFrame) -> DataFrame:
    """A row an order, to be added up by the sink."""
    return parsed(messages).select("customer", "total", f.lit(1).cast("bigint").alias("orders"))


def rows(mp: Milepost, query: str) -> list[tuple[object, ...]]:
    with mp.connect() as conn:
        return conn.execute(query.encode()).fetchall()


def expected_per_customer(count: int) -> list[tuple[object, ...]]:
    """What `per_customer` comes to after the orders 0 to count - 1."""
    numbers = {f"c{c}": range(c, count, 10) for c in range(10)}
    return [(name, sum(totals), len(totals)) for name, totals in numbers.items() if totals]


def forget_last_commit(directory: Path) -> None:
    """Of a streaming query: as if its driver was killed after our transaction, before Spark noted
    that the batch has ended."""
    commits = directory / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
