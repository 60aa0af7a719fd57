"""The output of some messages, and what the sink would refuse. Nothing is written."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Append, History, Milepost, Position, ToLog, Upsert, db
from milepost.db import Connection
from milepost.errors import InvalidOption, InvalidOutput, PipelineError
from milepost.pipeline.pipeline import Pipeline
from milepost.pipeline.preview import Preview, preview
from milepost.pipeline.sinks import Sink
from tests.pipeline.archived import Archive
from tests.pipeline.running import catch_up, parsed, per_customer, place, setup_of

pytestmark = pytest.mark.parametrize("order", ["append"])
SINK = Upsert("customers", key=["customer"], add=["total", "orders"])


def previewed(pipeline: Pipeline, spark: SparkSession, **options: object) -> Preview:
    return preview(setup_of(pipeline, spark), **options)  # type: ignore[arg-type]


def next_transaction(conn: Connection) -> object:
    """Only what writes is given a number."""
    return conn.execute("select pg_snapshot_xmax(pg_current_snapshot())").fetchone()


def test_the_last_messages_are_shown_and_nothing_is_written(
    mp: Milepost, conn: Connection, spark: SparkSession, spark_directory: Path
) -> None:
    place(mp, 0, 50)
    place(mp, 50, 30, topic="others")
    pipeline = mp.pipeline("customers", topics=["orders"], sink=SINK)(per_customer)
    before = next_transaction(conn)
    found = previewed(pipeline, spark, last=20, limit=5)
    assert next_transaction(conn) == before
    assert not spark_directory.exists()
    assert (found.messages, found.row_count, len(found.rows)) == (20, 20, 5)
    assert (found.after, found.last) == (Position(0, 30), Position(0, 80))
    assert found.rows[0].keys() == {"customer", "total", "orders"}
    assert [(c.name, c.spark_type, c.type) for c in found.columns] == [
        ("customer", "string", "text"),
        ("total", "bigint", "bigint"),
        ("orders", "bigint", "bigint"),
    ]
    assert (found.refused, found.sink) == (None, "upsert customers by customer")


def test_its_connections_cannot_write(url: str) -> None:
    with (
        psycopg.connect(db.read_only(url)) as conn,
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
    ):
        conn.execute("create table t ()")


def test_a_range_may_be_given_and_files_are_read(
    mp: Milepost, spark: SparkSession, archive: Archive
) -> None:
    place(mp, 0, 40)
    archive.up_to(Position(0, 20))
    archive.remove(Position(0, 20))
    pipeline = mp.pipeline("all", sink=Append("t"))(parsed)
    found = previewed(pipeline, spark, after=Position(0, 10), to=Position(0, 25), limit=50)
    assert sorted(row["total"] for row in found.rows) == list(range(10, 25))
    with pytest.raises(InvalidOption, match="before 0:25"):
        previewed(pipeline, spark, after=Position(0, 25), to=Position(0, 10))


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (Upsert("t", key=["day"], add=["amount"]), "'amount' of its output is missing"),
        (Upsert("t", key=["customer"]), r"more than one row with the key \(customer\) = \(c"),
        (Upsert("t", key=["nothing"]), "'nothing' of its output is null in some row"),
        (History("t", key=["customer"], at="nothing"), "'nothing' of its output is text: expected"),
        (ToLog(), "'type' of its output is missing"),
        (Append("nowhere.t"), "no schema 'nowhere'"),
        (Append("taken"), "is bigint in its output and text in the table"),
    ],
)
def test_what_the_sink_would_refuse_is_said(
    mp: Milepost, conn: Connection, spark: SparkSession, sink: Sink, said: str
) -> None:
    place(mp, 0, 20)
    conn.execute("create table taken__v1 (customer text, total text)")

    @mp.pipeline("p", sink=sink)
    def output(messages: DataFrame) -> DataFrame:
        return parsed(messages).withColumn("nothing", f.lit(None).cast("string"))

    assert re.search(said, str(previewed(output, spark).refused))


def test_a_target_that_fits_is_not_refused(mp: Milepost, spark: SparkSession) -> None:
    place(mp, 0, 20)
    pipeline = mp.pipeline("customers", sink=SINK)(per_customer)
    catch_up(pipeline, spark)
    assert previewed(pipeline, spark).refused is None


def test_a_function_that_fails_is_named(mp: Milepost, spark: SparkSession) -> None:
    @mp.pipeline("none", sink=Append("t"))
    def none(messages: DataFrame) -> DataFrame:
        return None  # type: ignore[return-value]

    @mp.pipeline("wrong", sink=Append("t"))
    def wrong(messages: DataFrame) -> DataFrame:
        return messages.select("nobody")

    with pytest.raises(InvalidOutput, match="is None: its function must return a DataFrame"):
        previewed(none, spark)
    with pytest.raises(PipelineError, match="'wrong': its function uses the column 'nobody'"):
        previewed(wrong, spark)
