"""What the tests of rebuilds share: a pipeline whose target tells which prefix of the log it is."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Milepost, Upsert
from milepost.pipeline.pipeline import Pipeline
from milepost.pipeline.rebuild import Progress, Rebuild
from tests.pipeline.running import per_customer, rows, setup_of

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
