"""An application whose pipelines fail, each in its own way."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import LongType

from milepost import Append, Milepost, Upsert
from tests.pipeline.running import parsed

mp = Milepost()
SINK = Append("broken")


def inverse_of(total: int) -> int:
    return 100 // total  # fails for order 0


inverse = f.udf(inverse_of, LongType(), useArrow=False)


@mp.pipeline("nothing", sink=SINK)  # type: ignore[arg-type]  # that is what is wrong with it
def nothing(messages: DataFrame) -> None:
    parsed(messages)


@mp.pipeline("listed", sink=SINK)  # type: ignore[arg-type]  # that is what is wrong with it
def listed(messages: DataFrame) -> list[str]:
    return parsed(messages).columns


@mp.pipeline("misspelt", sink=SINK)
def misspelt(messages: DataFrame) -> DataFrame:
    return parsed(messages).select("customer", "totl")


@mp.pipeline("lacking", sink=SINK, columns=["data"])
def lacking(messages: DataFrame) -> DataFrame:
    return messages.select("key", "data")


@mp.pipeline("inverse", sink=SINK)
def inverses(messages: DataFrame) -> DataFrame:
    return parsed(messages).select(inverse("total").alias("inverse"))


@mp.pipeline("streamed", sink=Upsert("broken", key=["customer"]), stateful=True)
def streamed(messages: DataFrame) -> DataFrame:
    orders = parsed(messages).withColumn("inverse", inverse("total"))
    return orders.groupBy("customer").agg(f.sum("inverse").alias("total"))


@mp.pipeline("cast", sink=SINK)
def cast(messages: DataFrame) -> DataFrame:
    return parsed(messages).select(f.col("customer").cast("bigint").alias("number"))
