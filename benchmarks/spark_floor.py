"""The least that a micro-batch costs: Spark's own rate source into its noop sink.

The floor is how long Spark takes for a trigger that has a row to move, by its own account
(`durationMs.triggerExecution`): finding it, writing the offset log, planning, one task, writing
the commit log. The row's wait for that trigger is left out, which is in our latency.
One row a second, so that the session is as idle in between as it is between our messages.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_TIMEOUT_SECONDS = 120
# The first triggers of a query compile what the later ones reuse.
_WARM_UP = 3


def trigger_milliseconds(spark: SparkSession, checkpoint: Path, count: int) -> list[float]:
    """Of `count` triggers, each of one row, of a query that is warm."""
    source = spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1)
    writer = source.load().writeStream.format("noop").trigger(processingTime="0 seconds")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    seen: dict[int, float] = {}
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    try:
        while len(seen) < count + _WARM_UP:
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{len(seen)} batches of the rate source in {_TIMEOUT_SECONDS} s"
                )
            time.sleep(0.2)
            seen |= {p["batchId"]: _execution(p) for p in query.recentProgress if _has_rows(p)}
    finally:
        query.stop()
    return [seen[batch] for batch in sorted(seen)][_WARM_UP:]


def _has_rows(progress: Any) -> bool:
    return bool(progress["numInputRows"])


def _execution(progress: Any) -> float:
    return float(progress["durationMs"]["triggerExecution"])
