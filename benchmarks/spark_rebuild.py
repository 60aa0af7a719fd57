"""Filling a pipeline's table anew from the whole log, on two cores, against a plain Spark job that
reads and writes by JDBC, without a checkpoint; and side by side with the same projection as a
processor in one process, which also writes exactly once."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate, per_second
from benchmarks.spark_log import TOTALS, fill, totals_pipeline
from benchmarks.spark_session import CORES, jdbc, on_tcp, require_jdbc, session
from milepost import Milepost, db
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from benchmarks.workbench import Workbench
    from milepost.db import Connection
    from milepost.records import RecordedMessage

_UNIT = "messages/s"
_BATCH = 1000
_TARGET = """
create table processor_totals (customer text primary key, cents bigint, orders bigint)
with (fillfactor = 70)
"""
_UPSERT = """
insert into processor_totals as t values (%s, %s, %s) on conflict (customer) do update
set cents = t.cents + excluded.cents, orders = t.orders + excluded.orders
"""


_MESSAGES = "(select data, position from milepost.messages where topic = 'orders') as messages"
# The driver fetches a whole partition at once unless it is told otherwise.
_FETCH_SIZE = "10000"
_RESULT = "select count(*), sum(cents), sum(orders), max(customer) from {}"


def measure(bench: Workbench) -> list[Comparison]:
    require_jdbc()
    with on_tcp(bench) as tcp, tcp.database() as url, session() as spark:
        number = fill(url, bench.choose(2_000_000, 50_000))
        with db.connect(url) as conn:
            conn.execute(_TARGET)
        runs = (bench.directory / f"rebuild-{n}" for n in count())
        # Its rate does not change on the way, and it would take minutes for all of them.
        part = bench.choose(200_000, 10_000)
        sides = {
            "ours": partial(_rebuild, url, runs, number),
            "job": partial(_job, spark, url, number),
            "processor": partial(_process, url, runs, number, part),
        }
        for side in sides.values():
            side(start=number - part // 10)
        measured = alternate(sides, rounds=bench.choose(5, 1))
    name, ours = "rebuild, 2 cores", measured["ours"]
    processor = f"processor in one process, batches of {_BATCH:,}"
    return [
        Comparison(name, "JDBC job, no checkpoint", _UNIT, ours, measured["job"], AtLeast(1)),
        Comparison(name, processor, _UNIT, ours, measured["processor"]),
    ]


def _rebuild(url: str, runs: Iterator[Path], number: int, start: int = 0) -> float:
    pipeline = totals_pipeline(url, next(runs), TOTALS, start)
    return per_second(number - start, pipeline.rebuild)


def _job(spark: SparkSession, url: str, number: int, start: int = 0) -> float:
    """Behind a rebuild in each round, whose result it must have."""
    rate = per_second(number - start, lambda: _read_and_write(spark, url, number, start))
    with db.connect(url) as conn:
        ours = conn.execute(_RESULT.format("totals").encode()).fetchone()
        theirs = conn.execute(_RESULT.format("job_totals").encode()).fetchone()
    if ours != theirs:
        raise RuntimeError(f"the rebuild has {ours}, the job {theirs}")
    return rate


def _read_and_write(spark: SparkSession, url: str, number: int, start: int) -> None:
    """As Spark's manual says, with both cores reading."""
    from pyspark.sql import functions as f

    address, properties = jdbc(url)
    reader = spark.read.format("jdbc").options(**properties, url=address, dbtable=_MESSAGES)
    messages = reader.options(
        fetchsize=_FETCH_SIZE,
        partitionColumn="position",
        lowerBound=str(start + 1),
        upperBound=str(number),
        numPartitions=str(CORES),
    ).load()
    sums = [f.sum(name).alias(name) for name in TOTALS.add]
    totals = TOTALS.transform(messages.where(f"position > {start}")).groupBy("customer").agg(*sums)
    totals.write.jdbc(address, "job_totals", mode="overwrite", properties=properties)


def _process(
    url: str, runs: Iterator[Path], number: int, part: int, start: int | None = None
) -> float:
    first = number - part if start is None else start
    processor = Milepost(url).processor(
        next(runs).name, topics=["orders"], batch_size=_BATCH, start_from=Position(0, first)
    )(add_up)
    return per_second(number - first, lambda: processor.run(until="caught_up"))


def add_up(messages: list[RecordedMessage], tx: Connection) -> None:
    """Added up by customer first: fewer statements, all of them in one go."""
    cents: defaultdict[str, int] = defaultdict(int)
    orders: defaultdict[str, int] = defaultdict(int)
    for message in messages:
        cents[message.data["customer"]] += message.data["cents"]
        orders[message.data["customer"]] += 1
    with tx.cursor() as cursor:
        cursor.executemany(_UPSERT, [(who, cents[who], orders[who]) for who in cents])


FIGURE = Figure("spark_rebuild", "A rebuild, against a plain job by JDBC", measure)
