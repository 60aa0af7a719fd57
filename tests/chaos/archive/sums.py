"""A pipeline that adds up what each writer has written. It is rebuilt again and again, most of it
from files, and each result is compared with the witness."""

from __future__ import annotations

import random
import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from milepost import Milepost, Position, SparkSettings, Upsert
from milepost.db import Connection
from milepost.pipeline import admin
from milepost.pipeline.pipeline import Pipeline
from milepost.pipeline.start_spark import spark_session
from milepost.pipeline.versions import load_versions
from tests.chaos.archive.instance import SPARK_STARTED

NAME = "sums"
SETTINGS = SparkSettings(
    "local[2]",
    {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    },
)

_FOUND = "select writer, messages, total from sums order by writer"
_EXPECTED = """
select (data ->> 'writer')::bigint, count(*), sum((data ->> 'number')::bigint)::bigint
from witness where (transaction_id, "position") <= (%s, %s) group by 1 order by 1
"""
_DONE = "insert into rebuilds (transaction_id, position) values (%s, %s)"


def rebuild_again(url: str, rng: random.Random) -> None:
    mp = Milepost(url)
    spark_session(master=SETTINGS.master, config=SETTINGS.config)
    sys.stderr.write(f"{SPARK_STARTED}\n")
    sys.stderr.flush()
    pipeline = sums_of(mp).using(SETTINGS)
    while True:
        with mp.connect() as conn:
            drop_replaced(conn)
        size = rng.choice([None, 2_000, 10_000])
        rebuilt = pipeline.rebuild(drop_old=True, max_messages=size)
        with mp.connect() as conn:
            compare(conn, rebuilt.position)


def sums_of(mp: Milepost) -> Pipeline:
    sink = Upsert("sums", key=["writer"], add=["messages", "total"])

    @mp.pipeline(NAME, sink=sink)
    def sums(messages: DataFrame) -> DataFrame:
        written = messages.select(f.from_json("data", "writer bigint, number bigint").alias("w"))
        one = f.lit(1).cast("bigint").alias("messages")
        return written.select("w.writer", one, f.col("w.number").alias("total"))

    return sums


def drop_replaced(conn: Connection) -> None:
    """By a rebuild that was killed after its swap. A version that is kept keeps its messages."""
    for version in load_versions(conn, NAME, "milepost"):
        if version.is_built and not version.is_active:
            admin.drop(conn, "milepost", NAME, version.version)


def compare(conn: Connection, position: Position) -> None:
    at = [position.transaction_id, position.position]
    found = conn.execute(_FOUND).fetchall()
    expected = conn.execute(_EXPECTED, at).fetchall()
    if found != expected:
        raise AssertionError(f"rebuilt up to {position}: {found}\nexpected: {expected}")
    conn.execute(_DONE, at)
