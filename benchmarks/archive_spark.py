"""Spark reads archived messages by itself, against its own JDBC source on the same messages in
PostgreSQL: all columns into `noop`, and sums of what is in their JSON.

Files of both engines: those of the in-process archiver have no `content`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import spark_log
from benchmarks.archived_log import MESSAGES_PER_FILE, archive_in_process
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate, per_second
from benchmarks.spark_log import CONTENTS, TOTALS
from benchmarks.spark_read import by_column
from benchmarks.spark_session import on_tcp, require_jdbc, session
from milepost import db

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.spark_log import Projection
    from benchmarks.workbench import Workbench

    Read = Callable[[], DataFrame]

_UNIT = "messages/s"


def measure(bench: Workbench) -> list[Comparison]:
    from milepost.pipeline import history
    from milepost.pipeline.archive import compact_with_spark

    require_jdbc()
    with on_tcp(bench) as tcp, tcp.database() as url, session() as spark:
        count = spark_log.fill(url, bench.choose(2_000_000, 20_000))
        per_file = min(MESSAGES_PER_FILE, count // 2)
        archive_in_process(url, tcp.directory / "archive", per_file)
        plain = {None: history(spark, url), TOTALS: history(spark, url, columns=["data"])}
        with db.connect(url) as conn:  # the files before stay where they are
            compact_with_spark(spark, conn, url, "milepost", target_messages=per_file)
        reads = _reads(spark, url, count) | {
            "columns, in process": lambda: plain[None],
            "data, in process": lambda: _summed(plain[TOTALS], TOTALS),
        }
        sides = {name: partial(_take, count, read) for name, read in reads.items()}
        alternate(sides, rounds=1)  # Java compiles what it meets often: not part of the figure
        measured = alternate(sides, rounds=bench.choose(5, 1))
    return _comparisons(measured)


def _reads(spark: SparkSession, url: str, count: int) -> dict[str, Read]:
    """The first three are the baselines' and ours, of which the manifest is read each time."""
    from milepost.pipeline import history

    jdbc = partial(by_column, spark, url, count)
    return {
        "columns, JDBC": jdbc,
        "sums, JDBC": lambda: _summed(jdbc().select("data"), TOTALS),
        "columns": lambda: history(spark, url),
        "content": lambda: _summed(history(spark, url, columns=["content"]), CONTENTS),
        "data": lambda: _summed(history(spark, url, columns=["data"]), TOTALS),
        "source": lambda: spark.read.format("milepost").options(url=url).load(),
    }


def _summed(messages: DataFrame, projection: Projection) -> DataFrame:
    from pyspark.sql import functions as f

    sums = [f.sum(name).alias(name) for name in projection.add]
    return projection.transform(messages).groupBy("customer").agg(*sums)


def _take(count: int, read: Read) -> float:
    return per_second(count, lambda: read().write.format("noop").mode("overwrite").save())


def _comparisons(measured: dict[str, list[float]]) -> list[Comparison]:
    lines = (
        ("all columns", "columns", "columns, JDBC", 2.5),
        ("all columns, files written in process", "columns, in process", "columns, JDBC", 2.5),
        ("all columns, through the source", "source", "columns, JDBC", None),
        ("sums from content", "content", "sums, JDBC", 3),
        ("sums from data", "data", "sums, JDBC", 1.4),
        ("sums from data, files written in process", "data, in process", "sums, JDBC", 1.4),
    )
    return [
        Comparison(
            name, "JDBC, partitionColumn=position", _UNIT, measured[ours], measured[theirs],
            None if ratio is None else AtLeast(ratio),
        )
        for name, ours, theirs, ratio in lines
    ]  # fmt: skip


FIGURE = Figure("archive_spark", "Spark reads archived messages, against its JDBC source", measure)
