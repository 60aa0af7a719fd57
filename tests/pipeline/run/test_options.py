"""What the options of a pipeline do that other tests have no use for."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Append, Files, Message, Milepost, Upsert
from tests.pipeline.running import (
    catch_up,
    expected_per_customer,
    parsed,
    per_customer,
    place,
    rows,
    runner_of,
)

pytestmark = [
    pytest.mark.parametrize("order", ["append"]),
    pytest.mark.usefixtures("spark_directory"),
]
CUSTOMERS = "select customer, total, orders from customers order by customer"
SINK = Upsert("customers", key=["customer"], add=["total", "orders"])


def test_types_select(mp: Milepost, spark: SparkSession) -> None:
    pipeline = mp.pipeline("customers", types=["OrderPlaced"], sink=SINK)(per_customer)
    place(mp, 0, 10)
    with mp.connect() as conn:
        mp.append(conn, Message("OrderShipped", {"customer": "c0", "total": 7}, topic="orders"))
    catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(10)
    assert pipeline.caught_up()


def test_available_now_ends_by_itself_with_everything_done(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = mp.pipeline(
        "customers", sink=SINK, trigger="available_now", max_messages_per_batch=10
    )(per_customer)
    place(mp, 0, 35)
    runner_of(pipeline, spark).run()  # until it is stopped, which nobody does
    assert rows(mp, CUSTOMERS) == expected_per_customer(35)
    assert rows(mp, "select batches, state from milepost.pipelines") == [(4, "stopped")]


def test_it_may_start_at_the_end(mp: Milepost, spark: SparkSession) -> None:
    pipeline = mp.pipeline("seen", sink=Append("seen"), start_from="end")(parsed)
    place(mp, 0, 10)
    catch_up(pipeline, spark)
    place(mp, 10, 5)
    catch_up(pipeline, spark)
    assert rows(mp, "select total from seen order by total") == [(n,) for n in range(10, 15)]


def test_a_stream_is_joined_with_a_static_table(mp: Milepost, spark: SparkSession) -> None:
    regions = spark.createDataFrame(
        [("c1", "north"), ("c2", "south")], "customer string, region string"
    )

    @mp.pipeline(
        "regions",
        sink=Upsert("regions", key=["region"]),
        stateful=True,
        max_messages_per_batch=10,
    )
    def by_region(messages: DataFrame) -> DataFrame:
        joined = parsed(messages).join(regions, "customer")
        return joined.groupBy("region").agg(f.sum("total").alias("total"))

    place(mp, 0, 20)
    catch_up(by_region, spark)
    found = rows(mp, "select region, total from regions order by region")
    assert found == [("north", 1 + 11), ("south", 2 + 12)]


def test_duplicates_are_dropped_over_all_batches(mp: Milepost, spark: SparkSession) -> None:
    @mp.pipeline(
        "days",
        sink=Append("days"),
        stateful=True,
        output_mode="append",
        max_messages_per_batch=4,
    )
    def days(messages: DataFrame) -> DataFrame:
        return parsed(messages).select("day").dropDuplicates(["day"])

    place(mp, 0, 8)  # the last one has the day of the first
    catch_up(days, spark)
    assert rows(mp, "select day from days order by day") == [(f"d{n}",) for n in range(7)]


def test_files_of_another_format(mp: Milepost, spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    sink = Files(path, format="json", partition_by=["day", "customer"])
    pipeline = mp.pipeline("files", sink=sink)(parsed)
    place(mp, 15, 3)
    catch_up(pipeline, spark)
    found = spark.read.json(path).where("day = 'd3' and customer = 'c7'").collect()
    assert [row.total for row in found] == [17]
