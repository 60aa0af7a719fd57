"""A rebuild from the archive, of which the table has nothing any more, and what it costs the server
meanwhile; the same from the table, and as a plain job that has no checkpoint."""

from __future__ import annotations

import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from benchmarks.archived_log import (
    MESSAGES_PER_FILE,
    archive_by_spark,
    remove_all,
    server_cpu_seconds,
)
from benchmarks.figure import AtLeast, AtMost, Comparison, Figure
from benchmarks.rounds import alternate, per_second
from benchmarks.spark_log import CONTENTS, TOTALS, fill, totals_pipeline
from benchmarks.spark_session import CORES, jdbc, on_tcp, require_jdbc, session
from milepost import db

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from benchmarks.spark_log import Projection
    from benchmarks.workbench import Workbench

_UNIT = "messages/s"
# Before there was an archive, a rebuild from the table had 0.76 of the rate of the plain job,
# measured in one run. 3.5 times that, in terms of the plain job:
_AT_LEAST = 3.5 * 0.76
_TABLE = "(select data, position from milepost.messages where topic = 'orders') as m"


def measure(bench: Workbench) -> list[Comparison]:
    require_jdbc()
    with (
        on_tcp(bench) as tcp,
        tcp.database() as table,
        tcp.database() as archived,
        session() as spark,
    ):
        number = fill(table, bench.choose(2_000_000, 50_000))
        fill(archived, number)
        per_file = min(MESSAGES_PER_FILE, number // 2)
        archive_by_spark(spark, archived, tcp.directory / "archive", per_file)
        remove_all(archived)
        runs = (tcp.directory / f"archive-rebuild-{n}" for n in count())
        cpu: list[float] = []
        wall: list[float] = []
        sides = {
            "archive": partial(_watched, archived, runs, number, cpu, wall),
            "table": partial(_rebuild, table, runs, number, TOTALS),
            "plain": partial(_plain, spark, table, number),
        }
        alternate(sides, rounds=1)
        cpu.clear()
        wall.clear()
        measured = alternate(sides, rounds=bench.choose(3, 1))
    ours = measured["archive"]
    return [
        Comparison(
            "from the archive, content", "a plain JDBC job without a checkpoint", _UNIT,
            ours, measured["plain"], AtLeast(_AT_LEAST),
        ),
        Comparison(
            "from the table", "a plain JDBC job without a checkpoint", _UNIT,
            measured["table"], measured["plain"],
        ),
        Comparison("from the archive, content", "from the table", _UNIT, ours, measured["table"]),
        Comparison("CPU of the server, seconds", "seconds", "s", cpu, wall, AtMost(0.1)),
    ]  # fmt: skip


def _rebuild(url: str, runs: Iterator[Path], number: int, projection: Projection) -> float:
    pipeline = totals_pipeline(url, next(runs), projection)
    return per_second(number, pipeline.rebuild)


def _watched(
    url: str, runs: Iterator[Path], number: int, cpu: list[float], wall: list[float]
) -> float:
    pipeline = totals_pipeline(url, next(runs), CONTENTS)
    with db.connect(url) as conn:
        before, began = server_cpu_seconds(conn), time.perf_counter()
        pipeline.rebuild()
        wall.append(time.perf_counter() - began)
        cpu.append(server_cpu_seconds(conn) - before)
    return number / wall[-1]


def _plain(spark: SparkSession, url: str, number: int) -> float:
    """What someone writes who needs the table once."""
    from pyspark.sql import functions as f

    address, properties = jdbc(url)

    def work() -> None:
        reader = spark.read.format("jdbc").options(**properties, url=address, dbtable=_TABLE)
        messages = reader.options(
            fetchsize="10000",
            partitionColumn="position",
            lowerBound="1",
            upperBound=str(number),
            numPartitions=str(CORES),
        ).load()
        sums = [f.sum(name).alias(name) for name in TOTALS.add]
        totals = TOTALS.transform(messages).groupBy("customer").agg(*sums)
        totals.write.jdbc(address, "plain_totals", mode="overwrite", properties=properties)

    return per_second(number, work)


FIGURE = Figure("archive_rebuild", "A rebuild from the archive", measure)
