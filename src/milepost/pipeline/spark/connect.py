"""What is different where the session is a client of Spark Connect: there is no JVM to ask, and no
SparkContext."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import functions as f

from milepost.errors import NeedsClassicSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMOTE = "sc://"  # how the address of a Connect server begins
_MOST_CORES = 100_000
_cores: WeakKeyDictionary[SparkSession, int] = WeakKeyDictionary()


def is_connect(spark: SparkSession) -> bool:
    """By its module: importing it needs packages that a classic session does not."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def cores_of(spark: SparkSession) -> int:
    """Of all executors. A Connect server does not say it, but divides a job by it."""
    if not is_connect(spark):
        return spark.sparkContext.defaultParallelism
    if spark not in _cores:
        rows = spark.range(_MOST_CORES).select(f.spark_partition_id().alias("n"))
        _cores[spark] = rows.distinct().count()
    return _cores[spark]


def page_of(spark: SparkSession) -> str | None:
    """The address of its own pages. None where they are turned off, and for a Connect server, which
    does not say it."""
    return None if is_connect(spark) else spark.sparkContext.uiWebUrl


def refuse_connect(spark: SparkSession, what: str) -> None:
    if is_connect(spark):
        raise NeedsClassicSpark(what)
