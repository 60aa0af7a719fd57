"""An application in a process of its own, to be killed: `run UNTIL NAME ...`, the driver of some of
its pipelines, or `rebuild NAME`. Without state, one pipeline keeps every order, one adds them up.
With state in Spark's directory: running totals, each order once, and files."""

from __future__ import annotations

import os
import sys
from typing import get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from milepost import Append, Files, Milepost, SparkSettings, Upsert
from milepost.runtime import Until
from tests.chaos.pipelines.names import EACH, FILES, FILES_VARIABLE, FIRSTS, SUMS, TOTALS
from tests.pipeline import running

mp = Milepost(os.environ["MILEPOST_URL"])


@mp.pipeline(EACH, sink=Append("each_order"), max_messages_per_batch=200)
def each(messages: DataFrame) -> DataFrame:
    return running.parsed(messages)


@mp.pipeline(
    SUMS,
    sink=Upsert(SUMS, key=["customer"], add=["total", "orders"]),
    max_messages_per_batch=100,
)
def sums(messages: DataFrame) -> DataFrame:
    return running.per_customer(messages)


@mp.pipeline(
    TOTALS,
    sink=Upsert(TOTALS, key=["customer"]),
    stateful=True,
    max_messages_per_batch=300,
)
def totals(messages: DataFrame) -> DataFrame:
    orders = running.parsed(messages).groupBy("customer")
    return orders.agg(f.sum("total").alias("total"), f.count("*").alias("orders"))


@mp.pipeline(
    FIRSTS,
    sink=Append(FIRSTS),
    stateful=True,
    output_mode="append",
    max_messages_per_batch=300,
)
def firsts(messages: DataFrame) -> DataFrame:
    return running.parsed(messages).select("total").dropDuplicates(["total"])


@mp.pipeline(
    FILES, sink=Files(os.environ.get(FILES_VARIABLE, "nowhere")), max_messages_per_batch=300
)
def files(messages: DataFrame) -> DataFrame:
    order = f.from_json("data", running.ORDER)
    return messages.select("position", order["total"].alias("total"))


def main(verb: str, *words: str) -> None:
    config = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    settings = SparkSettings("local[2]", config)
    if verb == "rebuild":
        (name,) = words
        mp.pipelines[name].using(settings).rebuild(drop_old=True, max_messages=200)
    else:
        (until,) = (known for known in get_args(Until) if known == words[0])
        mp.run(words[1:], until=until, spark=settings)


if __name__ == "__main__":
    main(*sys.argv[1:])
