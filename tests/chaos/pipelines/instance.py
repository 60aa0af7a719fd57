"""The driver of two pipelines in a process of its own, to be killed: one keeps every order, the
other adds them up."""

from __future__ import annotations

import os
import sys
from typing import get_args

from pyspark.sql import DataFrame

from milepost import Append, Milepost, SparkSettings, Upsert
from milepost.runtime import Until
from tests.chaos.pipelines.names import EACH, SUMS
from tests.pipeline import running

mp = Milepost(os.environ["MILEPOST_URL"])


@mp.pipeline(EACH, sink=Append("each_order"), max_messages_per_batch=200)
def each(messages: DataFrame) -> DataFrame:
    return running.parsed(messages)


@mp.pipeline(
    SUMS,
    sink=Upsert("sums", key=["customer"], add=["total", "orders"]),
    max_messages_per_batch=100,
)
def sums(messages: DataFrame) -> DataFrame:
    return running.per_customer(messages)


if __name__ == "__main__":
    (word,) = (each for each in get_args(Until) if each == sys.argv[1])
    config = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    mp.run(sys.argv[2:], until=word, spark=SparkSettings("local[2]", config))
