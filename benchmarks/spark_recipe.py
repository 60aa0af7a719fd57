"""The usual recipe for an upsert from a stream, to compare with: foreachBatch, Spark's JDBC writer
into a staging table, and one statement through a second connection that merges it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.spark_session import CORES, jdbc
from milepost import db

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.spark_log import Projection

_TARGET = "create table recipe_totals (customer text primary key, {}) with (fillfactor = 70)"
_STAGING = "create table recipe_staging (customer text, {})"
_MERGE = """
insert into recipe_totals as t select customer, {} from recipe_staging group by customer
on conflict (customer) do update set {}
"""


@dataclass(frozen=True, slots=True)
class Recipe:
    spark: SparkSession
    url: str
    projection: Projection
    at_once: int
    is_tuned: bool = False  # as someone does who has read the driver's manual to its end

    def run(self, checkpoint: Path) -> None:
        """The whole log, into new tables."""
        columns = ", ".join(f"{name} bigint" for name in self.projection.add)
        staging = _STAGING.format(columns)
        with db.connect(self.url) as conn:
            conn.execute("drop table if exists recipe_totals, recipe_staging")
            conn.execute(_TARGET.format(columns).encode())
            conn.execute(
                (staging.replace("table", "unlogged table") if self.is_tuned else staging).encode()
            )
        stream = self.spark.readStream.format("milepost").options(**self._options()).load()
        writer = stream.writeStream.foreachBatch(self._write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()

    def _options(self) -> dict[str, str]:
        return {
            "url": self.url,
            "topics": "orders",
            "columns": ",".join(self.projection.columns),
            "maxMessagesPerTrigger": str(self.at_once),
            "partitions": str(CORES),  # so that both read, and both write
        }

    def _write(self, batch: DataFrame, _: int) -> None:
        address, properties = jdbc(self.url)
        if self.is_tuned:
            properties["reWriteBatchedInserts"] = "true"
        self.projection.transform(batch).write.option("truncate", "true").jdbc(
            address, "recipe_staging", mode="overwrite", properties=properties
        )
        with db.connect(self.url) as conn:
            conn.execute(self._merge().encode())

    def _merge(self) -> str:
        names = self.projection.add
        return _MERGE.format(
            ", ".join(f"sum({name})" for name in names),
            ", ".join(f"{name} = t.{name} + excluded.{name}" for name in names),
        )
