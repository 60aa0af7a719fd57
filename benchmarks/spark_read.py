"""Reading the whole log into Spark through the source, against Spark's own partitioned JDBC read
of the same columns of the same server. Both end in Spark's `noop`, which takes the rows and does
nothing."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks import spark_log
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate, per_second
from benchmarks.spark_session import jdbc, on_tcp, require_jdbc, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.workbench import Workbench

_COLUMNS = "transaction_id, position, id, topic, key, type, data, metadata, recorded_at"
_TABLE = f"(select {_COLUMNS} from milepost.messages) as messages"  # noqa: S608 - no one's input
# The driver fetches a whole partition at once unless it is told otherwise.
_FETCH_SIZE = "10000"
_PARTITIONS = 8


def measure(bench: Workbench) -> list[Comparison]:
    require_jdbc()
    with on_tcp(bench) as tcp, tcp.database() as url, session() as spark:
        count = spark_log.fill(url, bench.choose(2_000_000, 20_000))
        sides = {
            "ours": partial(_take, count, partial(_ours, spark, url)),
            "column": partial(_take, count, partial(by_column, spark, url, count)),
            "key": partial(_take, count, partial(_by_key, spark, url, count)),
        }
        alternate(sides, rounds=1)  # Java compiles what it meets often: not part of the figure
        measured = alternate(sides, rounds=bench.choose(5, 1))
    return [
        _comparison(count, "JDBC, partitionColumn=position", measured, "column", AtLeast(1.3)),
        _comparison(count, "JDBC, predicates by hand on the primary key", measured, "key"),
    ]


def _take(count: int, read: partial[DataFrame]) -> float:
    return per_second(count, lambda: read().write.format("noop").mode("overwrite").save())


def _ours(spark: SparkSession, url: str) -> DataFrame:
    return spark.read.format("milepost").options(url=url).load()


def by_column(spark: SparkSession, url: str, count: int) -> DataFrame:
    """As Spark's manual says."""
    address, properties = jdbc(url)
    reader = spark.read.format("jdbc").options(**properties, url=address, dbtable=_TABLE)
    return reader.options(
        fetchsize=_FETCH_SIZE,
        partitionColumn="position",
        lowerBound="1",
        upperBound=str(count),
        numPartitions=str(_PARTITIONS),
    ).load()


def _by_key(spark: SparkSession, url: str, count: int) -> DataFrame:
    """As someone does who knows the log's primary key."""
    address, properties = jdbc(url)
    bounds = [count * part // _PARTITIONS for part in range(_PARTITIONS + 1)]
    predicates = [
        f"transaction_id = 0 and position > {after} and position <= {last}"
        for after, last in pairwise(bounds)
    ]
    return spark.read.jdbc(
        address, _TABLE, predicates=predicates, properties=properties | {"fetchsize": _FETCH_SIZE}
    )


def _comparison(
    count: int,
    against: str,
    measured: dict[str, list[float]],
    side: str,
    target: AtLeast | None = None,
) -> Comparison:
    return Comparison(
        f"spark.read.format('milepost'), {count} messages",
        against,
        "messages/s",
        measured["ours"],
        measured[side],
        target,
    )


FIGURE = Figure(
    "spark_read",
    "Spark reads the log, against its own JDBC source on the same server",
    measure,
)
