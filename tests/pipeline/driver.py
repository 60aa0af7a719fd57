"""A driver in a process of its own, which can kill itself in the middle of a batch."""

from __future__ import annotations

import os
import signal
import sys

from pyspark.sql import DataFrame

from milepost import Milepost, SparkSettings, Upsert
from milepost.pipeline.write import range_writer, staging
from milepost.runtime import Until
from tests.pipeline import running
from tests.pipeline.own_spark import BRIEF

mp = Milepost(os.environ["MILEPOST_URL"])


@mp.pipeline(
    "customers",
    sink=Upsert("customers", key=["customer"], add=["total", "orders"]),
    max_messages_per_batch=20,
)
def customers(messages: DataFrame) -> DataFrame:
    return running.per_customer(messages)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_in_batch(moment: str, batch: int) -> None:
    """`staged`: all rows are copied, nothing is merged. `merged`: the transaction has committed,
    but the driver does not know it yet."""
    stage, merge = staging.Staging.stage, range_writer.RangeWriter.merge
    done = 0

    def staged(*arguments: object) -> staging.Staged:
        found = stage(*arguments)  # type: ignore[arg-type]  # passed on as they come
        # Or more: one may be staged before the merge beside it has been counted.
        if moment == "staged" and done >= batch:
            kill()
        return found

    def merged(*arguments: object) -> range_writer.Written:
        nonlocal done
        written = merge(*arguments)  # type: ignore[arg-type]  # passed on as they come
        if moment == "merged" and done == batch:
            kill()
        done += 1
        return written

    staging.Staging.stage = staged  # type: ignore[method-assign,assignment]
    range_writer.RangeWriter.merge = merged  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        kill_in_batch(sys.argv[1], int(sys.argv[2]))
    config = {**BRIEF, "spark.sql.shuffle.partitions": "2"}
    until: Until = "stopped" if "stopped" in sys.argv else "caught_up"
    mp.run(until=until, spark=SparkSettings("local[2]", config))
