"""Orders from the log as a streaming table, their sums as a view, and the large ones back in the
log. `spark-pipelines` imports this file."""

from __future__ import annotations

from examples.sdp.completed_runs import let_runs_complete
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost.pipeline import MilepostSource

LARGE = 90

let_runs_complete()
spark = SparkSession.active()
spark.dataSource.register(MilepostSource)


@dp.table
def orders() -> DataFrame:
    """Grows with the log: each run reads what is new. The URL is MILEPOST_URL of the process."""
    messages = spark.readStream.format("milepost").option("topics", "orders").load()
    order = f.from_json("data", "number bigint, customer string, total bigint")
    return messages.select(order.alias("order")).select("order.*")


@dp.materialized_view
def revenue() -> DataFrame:
    return spark.read.table("orders").groupBy("customer").agg(f.sum("total").alias("total"))


dp.create_sink("large_orders", "milepost", {"topic": "large-orders"})


@dp.append_flow(target="large_orders")
def find_large_orders() -> DataFrame:
    """Each row becomes a message, exactly once, also if a run is killed."""
    large = spark.readStream.table("orders").where(f.col("total") >= LARGE)
    data = f.to_json(f.struct("number", "total"))
    return large.select(
        f.lit("LargeOrder").alias("type"), data.alias("data"), f.col("customer").alias("key")
    )
