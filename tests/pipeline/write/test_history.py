"""Versions of rows with their times, and rows that are deleted: from the log to the table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import History, Message, Milepost, Upsert, append
from milepost.errors import InvalidOutput
from milepost.pipeline.pipeline import Pipeline
from tests.pipeline.rebuilding import rebuild_of
from tests.pipeline.running import catch_up, rows
from tests.pipeline.writing import frame, write, writing

pytestmark = [
    pytest.mark.parametrize("order", ["append"]),
    pytest.mark.usefixtures("spark_directory"),
]
SINK = History("prices", key=["item"], at="at", delete="gone")
SCHEMA = "item string, price int, at timestamp, gone boolean"
PRICES = "select item, price, valid_from, valid_to from prices order by item, valid_from"


def day(number: int) -> datetime:
    return datetime(2026, 1, number, tzinfo=UTC)


def say(mp: Milepost, *rows_: tuple[str, int | None, int, bool | None]) -> None:
    messages = [
        Message("Price", {"item": item, "price": price, "at": f"2026-01-{at:02}", "gone": gone})
        for item, price, at, gone in rows_
    ]
    with mp.connect() as conn:
        append(conn, *messages)


def parsed(messages: DataFrame) -> DataFrame:
    return messages.select(f.from_json("data", SCHEMA).alias("p")).select("p.*")


def prices(mp: Milepost, batch: int) -> Pipeline:
    return mp.pipeline("prices", sink=SINK, max_messages_per_batch=batch, partitions=3)(parsed)


@pytest.mark.parametrize("batch", [2, 100])
def test_late_and_repeated_messages_give_the_same_history_live_and_rebuilt(
    mp: Milepost, spark: SparkSession, batch: int
) -> None:
    pipeline = prices(mp, batch)
    say(mp, ("pen", 1, 1, False), ("pen", 3, 9, None), ("ink", 8, 2, False))
    say(mp, ("pen", 2, 5, False), ("pen", 3, 9, False), ("ink", None, 6, True))
    say(mp, ("pen", 4, 5, False), ("ink", 9, 4, False), ("ink", 7, 8, False))
    expected = [
        ("ink", 8, day(2), day(4)), ("ink", 9, day(4), day(6)), ("ink", 7, day(8), None),
        ("pen", 1, day(1), day(5)), ("pen", 4, day(5), day(9)), ("pen", 3, day(9), None),
    ]  # fmt: skip
    catch_up(pipeline, spark)
    assert rows(mp, PRICES) == expected
    deletion = rows(mp, "select item, valid_from from prices__v1 where valid_to = valid_from")
    assert deletion == [("ink", day(6))]
    rebuild_of(pipeline, spark, max_messages=4).run()
    assert rows(mp, PRICES) == expected


def test_a_function_that_shuffles_sorts_again(mp: Milepost, spark: SparkSession) -> None:
    """Then the later message wins, as it does where nothing is shuffled."""

    @mp.pipeline("prices", sink=SINK)
    def shuffled(messages: DataFrame) -> DataFrame:
        read = messages.select(f.from_json("data", SCHEMA).alias("p"), "position")
        scattered = read.repartition(7, f.hash("position"))
        return scattered.orderBy("position").select("p.*")

    say(mp, *(("pen", price, 1 + price % 3, False) for price in range(60)))
    catch_up(shuffled, spark)
    expected = [("pen", 57 + n, day(1 + n), day(2 + n) if n < 2 else None) for n in range(3)]
    assert rows(mp, PRICES) == expected


@pytest.mark.parametrize(
    ("sink", "schema", "column"),
    [
        (SINK, "item string, at timestamp", "gone"),
        (SINK, "item string, at timestamp, gone int", "gone"),
        (SINK, "item string, at string, gone boolean", "at"),
        (SINK, "item string, at timestamp, gone boolean, valid_to date", "valid_to"),
        (Upsert("prices", key=["item"], delete="gone"), "item string, gone string", "gone"),
        (Upsert("prices", key=["item"], delete="gone"), "item string, price int", "gone"),
    ],
)
def test_columns_that_do_not_fit_the_sink_are_named(
    mp: Milepost, spark: SparkSession, sink: History | Upsert, schema: str, column: str
) -> None:
    with writing(mp, sink) as writer, pytest.raises(InvalidOutput) as refused:
        writer.prepare(frame(spark, schema))
    assert refused.value.column == column
    assert rows(mp, "select to_regclass('prices__v1')") == [(None,)]


@pytest.mark.parametrize(("row", "column"), [((None, day(1)), "item"), (("pen", None), "at")])
def test_a_null_in_the_key_or_the_time_is_refused(
    mp: Milepost, spark: SparkSession, row: tuple[Any, ...], column: str
) -> None:
    with writing(mp, History("prices", key=["item"], at="at")) as writer:
        with pytest.raises(InvalidOutput, match="is null in some row") as refused:
            write(writer, frame(spark, "item string, at timestamp", ("ink", day(1)), row))
        assert refused.value.column == column


def test_a_history_gets_new_columns_and_wider_types(mp: Milepost, spark: SparkSession) -> None:
    with writing(mp, History("prices", key=["item"], at="at", delete="gone")) as writer:
        schema = "item string, price int, at int, gone boolean"
        write(writer, frame(spark, schema, ("pen", 1, 1, None)))
        schema = "item string, price bigint, at bigint, tax int, gone boolean"
        write(writer, frame(spark, schema, ("pen", 2**40, 2**40, 7, None), ("ink", 1, 5, 0, True)))
    assert rows(mp, "select item, price, tax, valid_from, valid_to from prices order by 2") == [
        ("pen", 1, None, 1, 2**40), ("pen", 2**40, 7, 2**40, None)
    ]  # fmt: skip


def last_of_each(messages: DataFrame) -> DataFrame:
    """What the last message of the batch says about each item."""
    said = messages.select(f.from_json("data", SCHEMA).alias("p"), "position").groupBy("p.item")
    last = said.agg(f.max_by("p", "position").alias("p"))
    return last.select("p.item", "p.price", "p.gone")


@pytest.mark.parametrize("batch", [2, 100])
def test_an_upsert_deletes_live_and_rebuilt(mp: Milepost, spark: SparkSession, batch: int) -> None:
    sink = Upsert("current", key=["item"], delete="gone")
    pipeline = mp.pipeline("current", sink=sink, max_messages_per_batch=batch)(last_of_each)
    say(mp, ("pen", 1, 1, False), ("ink", 2, 1, None), ("ink", None, 2, True))
    say(mp, ("cup", 3, 1, True), ("pen", 4, 3, True), ("pen", 5, 4, False))
    catch_up(pipeline, spark)
    assert rows(mp, "select * from current") == [("pen", 5)]
    rebuild_of(pipeline, spark).run()
    assert rows(mp, "select * from current") == [("pen", 5)]


def test_a_key_that_comes_twice_with_a_deletion_is_refused(
    mp: Milepost, spark: SparkSession
) -> None:
    with writing(mp, Upsert("current", key=["item"], delete="gone")) as writer:
        df = frame(spark, "item string, gone boolean", ("pen", True), ("pen", False))
        with pytest.raises(InvalidOutput, match=r"\(item\) = \(pen\).*Group by the key"):
            write(writer, df)
