"""A stateless pipeline gets a batch as a static DataFrame: it may join and group."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Append, Milepost, Upsert
from milepost.errors import TargetMismatch
from tests.pipeline.running import catch_up, parsed, place, rows

pytestmark = [
    pytest.mark.parametrize("order", ["append"]),
    pytest.mark.usefixtures("spark_directory"),
]


def test_a_join_with_a_static_table(mp: Milepost, spark: SparkSession) -> None:
    regions = spark.createDataFrame(
        [(f"c{n}", "north" if n < 5 else "south") for n in range(10)],
        "customer string, region string",
    )

    @mp.pipeline("regions", sink=Upsert("regions", key=["region"], add=["total"]))
    def by_region(messages: DataFrame) -> DataFrame:
        return parsed(messages).join(regions, "customer").select("region", "total")

    place(mp, 0, 100)
    catch_up(by_region, spark)
    totals = {"north": 0, "south": 0}
    for n in range(100):
        totals["north" if n % 10 < 5 else "south"] += n
    found = rows(mp, "select region, total from regions order by region")
    assert found == [("north", totals["north"]), ("south", totals["south"])]


def test_an_aggregation_within_the_batch(mp: Milepost, spark: SparkSession) -> None:
    @mp.pipeline("days", sink=Upsert("days", key=["day"], add=["total"]), max_messages_per_batch=15)
    def days(messages: DataFrame) -> DataFrame:
        return parsed(messages).groupBy("day").agg(f.sum("total").alias("total"))

    place(mp, 0, 40)
    catch_up(days, spark)
    assert rows(mp, "select day, total from days order by day") == [
        (f"d{d}", sum(range(d, 40, 7))) for d in range(7)
    ]


def test_an_output_that_changes_its_columns_is_checked_again(
    mp: Milepost, spark: SparkSession
) -> None:
    """As a pivot does, whose columns depend on the data."""

    @mp.pipeline("wide", sink=Append("wide"), max_messages_per_batch=2)
    def wide(messages: DataFrame) -> DataFrame:
        return parsed(messages).groupBy().pivot("customer").sum("total")

    place(mp, 0, 2)
    catch_up(wide, spark)
    place(mp, 2, 2)
    with pytest.raises(TargetMismatch, match=r"'c0' is not there.* If 'c2' is its new name"):
        catch_up(wide, spark)
    assert rows(mp, "select * from wide") == [(0, 1)]
