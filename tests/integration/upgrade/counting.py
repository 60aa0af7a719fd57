"""The pipeline that runs before, during and after the upgrade: `milepost run counting:mp`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from milepost import Milepost, Upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

mp = Milepost()


@mp.pipeline("counting", sink=Upsert("counted", key=["n"], add=["seen"]))
def counting(messages: DataFrame) -> DataFrame:
    """How often each number was seen: a message that is written twice counts 2."""
    number = f.from_json("data", "n int")
    return messages.select(number.getField("n").alias("n"), f.lit(1).cast("long").alias("seen"))
