"""The driver of pipelines that keep state in Spark's directory, to be killed: running totals, the
first of orders that come twice, and files. Those that are named: each needs a stream."""

from __future__ import annotations

import os
import sys
from typing import get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from milepost import Append, Files, Milepost, SparkSettings, Upsert
from milepost.runtime import Until
from tests.chaos.pipelines.names import FILES, FILES_VARIABLE, FIRSTS, TOTALS
from tests.pipeline import running

mp = Milepost(os.environ["MILEPOST_URL"])


@mp.pipeline(
    TOTALS,
    sink=Upsert("totals", key=["customer"]),
    stateful=True,
    max_messages_per_batch=300,
)
def totals(messages: DataFrame) -> DataFrame:
    orders = running.parsed(messages).groupBy("customer")
    return orders.agg(f.sum("total").alias("total"), f.count("*").alias("orders"))


@mp.pipeline(
    FIRSTS,
    sink=Append("firsts"),
    stateful=True,
    output_mode="append",
    max_messages_per_batch=300,
)
def firsts(messages: DataFrame) -> DataFrame:
    return running.parsed(messages).select("total").dropDuplicates(["total"])


@mp.pipeline(FILES, sink=Files(os.environ[FILES_VARIABLE]), max_messages_per_batch=300)
def files(messages: DataFrame) -> DataFrame:
    order = f.from_json("data", running.ORDER)
    return messages.select("position", order["total"].alias("total"))


if __name__ == "__main__":
    (word,) = (each for each in get_args(Until) if each == sys.argv[1])
    config = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    mp.run(sys.argv[2:], until=word, spark=SparkSettings("local[2]", config))
