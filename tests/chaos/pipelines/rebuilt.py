"""An application whose driver and whose rebuilds run in processes of their own, to be killed: `run
UNTIL NAME`, or `rebuild NAME`. One pipeline adds orders up. The other one keeps each order once, by
Spark's state."""

from __future__ import annotations

import os
import sys
from typing import get_args

from pyspark.sql import DataFrame

from milepost import Append, Milepost, SparkSettings, Upsert
from milepost.runtime import Until
from tests.pipeline import running

SUMS, DISTINCT = "sums", "distinct"
mp = Milepost(os.environ.get("MILEPOST_URL", "postgresql://nowhere"))


@mp.pipeline(
    SUMS,
    sink=Upsert(SUMS, key=["customer"], add=["total", "orders"]),
    max_messages_per_batch=100,
)
def sums(messages: DataFrame) -> DataFrame:
    return running.per_customer(messages)


@mp.pipeline(
    DISTINCT,
    sink=Append("each_once"),
    stateful=True,
    output_mode="append",
    max_messages_per_batch=200,
)
def distinct(messages: DataFrame) -> DataFrame:
    return running.parsed(messages).dropDuplicates(["total"])


if __name__ == "__main__":
    config = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    settings = SparkSettings("local[2]", config)
    if sys.argv[1] == "rebuild":
        mp.pipelines[sys.argv[2]].using(settings).rebuild(drop_old=True, max_messages=200)
    else:
        (word,) = (each for each in get_args(Until) if each == sys.argv[2])
        mp.run([sys.argv[3]], until=word, spark=settings)
