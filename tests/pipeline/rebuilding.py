"""What the tests of rebuilds share: a pipeline whose target tells which prefix of the log it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Milepost, Upsert
from milepost.db import Connection
from milepost.pipeline.pipeline import Pipeline
from milepost.pipeline.rebuild import Progress, Rebuild
from tests.pipeline.running import expected_per_customer, per_customer, rows, setup_of

CUSTOMERS = "select customer, total, orders from customers order by customer"
BY_CUSTOMER = Upsert("customers", key=["customer"], add=["total", "orders"])


def customers(mp: Milepost, version: int = 1, batch: int = 30) -> Pipeline:
    """Every customer's orders and what they come to."""
    forget(mp, "customers")
    return mp.pipeline(
        "customers", sink=BY_CUSTOMER, version=version, max_messages_per_batch=batch
    )(per_customer)


def customers_with_twice(mp: Milepost, version: int = 2) -> Pipeline:
    """New code: another column, and each total doubled."""
    forget(mp, "customers")
    sink = Upsert("customers", key=["customer"], add=["total", "orders", "twice"])

    @mp.pipeline("customers", sink=sink, version=version)
    def with_twice(messages: DataFrame) -> DataFrame:
        return per_customer(messages).withColumn("twice", f.col("total") * 2)

    return with_twice


def forget(mp: Milepost, name: str) -> None:
    """Another deployment of the same application, in the same test."""
    mp._pipelines.pop(name, None)


def rebuild_of(
    pipeline: Pipeline,
    spark: SparkSession,
    to_version: int | None = None,
    *,
    drop: bool = False,
    max_messages: int = 50,
    seen: list[Progress] | None = None,
) -> Rebuild:
    return Rebuild(
        setup_of(pipeline, spark),
        to_version,
        drop,
        max_messages,
        watch=(lambda _: None) if seen is None else seen.append,
    )


def active_version(mp: Milepost) -> int | None:
    found = rows(mp, "select version from milepost.pipelines where is_active")
    return int(str(found[0][0])) if found else None


def tables(mp: Milepost) -> list[str]:
    found = rows(
        mp,
        "select relname from pg_class where relname ~ '^customers__v' and relkind = 'r' order by 1",
    )
    return [str(name) for (name,) in found]


@dataclass
class Onlooker:
    """Looks at a target of customers: it shows a prefix of the log, and never an earlier one than
    before."""

    mp: Milepost
    query: str = CUSTOMERS
    seen: list[int] = field(default_factory=list)  # how many orders, each time
    wrong: list[object] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with self.mp.connect() as conn:
            while not self.stop.wait(0.02):
                self.look(conn)

    def look(self, conn: Connection) -> None:
        found = conn.execute(self.query.encode()).fetchall()
        count = sum(row[2] for row in found)
        if found != expected_per_customer(count) or count < max(self.seen[-1:], default=0):
            self.wrong.append((count, found))
        self.seen.append(count)


class Worker(Protocol):
    stop: threading.Event

    def run(self) -> None:
        """Until it is stopped."""


@contextmanager
def in_thread(worker: Worker) -> Iterator[None]:
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        worker.stop.set()
        thread.join(30)
