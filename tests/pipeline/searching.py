"""The driver of a pipeline that skips bad messages, in a process of its own, which kills itself at
the first commit of its search: `python -m tests.pipeline.searching MOMENT`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from milepost import Milepost, SparkSettings, Upsert
from milepost.pipeline.pipeline import Pipeline
from milepost.pipeline.write import RangeWriter
from tests.pipeline.conftest import SETTINGS
from tests.pipeline.running import per_customer


def searching(mp: Milepost) -> Pipeline:
    """It makes a character of ~ that PostgreSQL's text does not have."""
    sink = Upsert("customers", key=["customer"], add=["total", "orders"])

    @mp.pipeline("customers", sink=sink, on_failure="skip", max_messages_per_batch=100)
    def customers(messages: DataFrame) -> DataFrame:
        found = per_customer(messages)
        return found.withColumn("customer", f.translate("customer", "~", "\0"))

    return customers


def kill_at(moment: str) -> None:
    """`moved`: the rows of a part are copied, and the checkpoint is moved, but not committed.
    `committed`: the driver does not know it yet. For parts and for dead letters alike."""
    for name in {"moved": ("_advance",), "committed": ("merge", "set_aside")}[moment]:
        setattr(RangeWriter, name, killed_after(getattr(RangeWriter, name)))


def killed_after(step: Callable[..., object]) -> Callable[..., None]:
    def run(*arguments: Any) -> None:
        step(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    return run


if __name__ == "__main__":
    kill_at(sys.argv[1])
    pipeline = searching(Milepost(os.environ["MILEPOST_URL"]))
    pipeline.using(SparkSettings("local[1]", SETTINGS)).run(until="caught_up")
