"""The pipelines of the demo: revenue by day and by customer. A driver of them is
`python -m milepost.cli.demo.pipelines SCHEMA`, a rebuild the same with `rebuild`."""

from __future__ import annotations

import os
import signal
import sys
from threading import Thread
from typing import TYPE_CHECKING

from milepost.app import Milepost
from milepost.pipeline.settings import SparkSettings
from milepost.pipeline.sinks import Upsert

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

BY_DAY, BY_CUSTOMER = "revenue-by-day", "revenue-by-customer"
BATCH_BEGAN = "batch began"
ORDER = "customer string, day date, total bigint"
# Small, so that there are many batches to be killed in.
MESSAGES_PER_BATCH = 5_000
SETTINGS = SparkSettings("local[2]", {"spark.ui.enabled": "false", "spark.driver.memory": "1g"})


def make_pipelines(mp: Milepost, at_batch: Callable[[], None]) -> None:
    @mp.pipeline(
        BY_DAY,
        topics=["orders"],
        sink=Upsert(f"{mp.schema}.revenue_by_day", key=["day"], add=["orders", "total"]),
        max_messages_per_batch=MESSAGES_PER_BATCH,
    )
    def by_day(messages: DataFrame) -> DataFrame:
        at_batch()
        return _revenue(messages, "day")

    @mp.pipeline(
        BY_CUSTOMER,
        topics=["orders"],
        sink=Upsert(f"{mp.schema}.revenue_by_customer", key=["customer"], add=["orders", "total"]),
        max_messages_per_batch=MESSAGES_PER_BATCH,
    )
    def by_customer(messages: DataFrame) -> DataFrame:
        at_batch()
        return _revenue(messages, "customer")


def _revenue(messages: DataFrame, column: str) -> DataFrame:
    from pyspark.sql import functions as f

    orders = messages.select(f.from_json("data", ORDER).alias("order")).select("order.*")
    return orders.groupBy(column).agg(f.count("*").alias("orders"), f.sum("total").alias("total"))


def _die_with_the_demo() -> None:
    """However that ends, its end of the pipe is closed. With Java, which is of this group."""

    def watch() -> None:
        sys.stdin.read()
        os.killpg(0, signal.SIGKILL)

    Thread(target=watch, daemon=True).start()


def main() -> None:
    _die_with_the_demo()
    mp = Milepost(schema=sys.argv[1])
    if sys.argv[2:] == ["rebuild"]:
        make_pipelines(mp, lambda: None)
        rebuilt = mp.pipelines[BY_DAY].using(SETTINGS).rebuild()
        sys.stdout.write(f"{rebuilt.version}\n")
        return
    # Told to whoever started this: after it, and before the next, is in the middle of a batch.
    make_pipelines(mp, lambda: print(BATCH_BEGAN, flush=True))  # noqa: T201
    mp.run(spark=SETTINGS)


if __name__ == "__main__":
    main()
