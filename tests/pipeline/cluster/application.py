"""A program with Spark in it, as a user would write it, for tests that kill parts of its cluster.

Run as `python -m tests.pipeline.cluster.application WAY DIRECTORY POSITION HOLDS`, where the
last three make the gate; the database and the cluster are in the environment. It ends when it has
caught up.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from milepost import Append, Milepost, RecordedMessage, Upsert
from milepost.db import Connection
from milepost.pipeline.spark.settings import SparkSettings, spark_settings
from milepost.pipeline.start_spark import spark_session
from milepost.pipeline.write.staging import CHUNK_BYTES
from tests.pipeline.cluster.driver import ANSWER
from tests.pipeline.cluster.gate import Gate
from tests.pipeline.cluster.orders import BATCH, HANDLED, PARTITIONS, SEEN, SPENDING, TOPIC

# A partition's worth, and together more than a task gathers before it copies.
HEAVY_POSITIONS = 2 * BATCH // PARTITIONS
HEAVY_BYTES = 2 * CHUNK_BYTES // (BATCH // PARTITIONS)


@dataclass(frozen=True, slots=True)
class Application:
    """Reads orders, one of which is a gate."""

    gate: Gate
    spark: SparkSettings

    def read(self) -> Any:
        """The source alone, as anyone's Spark job would use it."""
        spark = spark_session("reading", self.spark.master, self.spark.config)
        reader = spark.read.format("milepost").option("topics", TOPIC)
        rows = self.by_customer(reader.option("partitions", PARTITIONS).load())
        return [list(row) for row in rows.orderBy("customer").collect()]

    def run(self, only: Sequence[str] | None = None) -> None:
        """Two pipelines at once: one that shuffles its rows, one that shows what came twice."""
        mp = Milepost()
        spending = Upsert(SPENDING, key=["customer"], add=["orders", "spent"])
        for name, sink, function in (
            (SPENDING, spending, self.by_customer),
            (SEEN, Append(SEEN), self.orders),
        ):
            mp.pipeline(
                name, topics=[TOPIC], max_messages_per_batch=BATCH, partitions=PARTITIONS, sink=sink
            )(function)
        mp.run(only, until="caught_up", spark=self.spark)

    def run_seen(self) -> None:
        self.run([SEEN])

    def handle(self) -> None:
        """An ordinary handler, in tasks: one for each of two segments."""
        passing = self.gate.passing(HANDLED)

        def note(messages: list[RecordedMessage], tx: Connection) -> None:
            positions = [message.position.position for message in messages]
            tx.execute("insert into handled select unnest(%s::bigint[])", [positions])
            for position in positions:
                passing(position, "")

        mp = Milepost()
        mp.processor(HANDLED, topics=[TOPIC], segments=2, batch_size=5_000, engine="spark")(note)
        mp.run(until="caught_up", spark=self.spark)

    def orders(self, messages: DataFrame) -> DataFrame:
        """Those before the gate are heavy: what has come so far is staged while the task waits."""
        position, gate = f.col("position"), self.gate
        # Not the last one of the partition before: its task would count as one that waits.
        is_heavy = (position > gate.position - HEAVY_POSITIONS) & (position <= gate.position)
        padding = f.when(is_heavy, f.repeat(f.lit("x"), HEAVY_BYTES))
        return messages.select(position, gate.through(position, padding, SEEN).alias("padding"))

    def by_customer(self, messages: DataFrame) -> DataFrame:
        customer = self.gate.through(f.col("position"), f.col("key"), SPENDING)
        amount = f.get_json_object("data", "$.amount").cast("bigint")
        amounts = messages.select(customer.alias("customer"), amount.alias("amount"))
        sums = amounts.groupBy("customer").agg(f.count("amount"), f.sum("amount"))
        return sums.toDF("customer", "orders", "spent")


def main(way: str, directory: str, position: str, holds: str) -> None:
    gate = Gate(Path(directory), int(position), int(holds))
    application = Application(gate, spark_settings({}, os.environ))
    sys.stdout.write(f"{ANSWER}{json.dumps(getattr(application, way)())}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
