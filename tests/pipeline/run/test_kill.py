"""A driver that is killed in the middle of a batch, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from milepost import Milepost, Upsert
from tests.pipeline.running import catch_up, expected_per_customer, per_customer, place, rows

REPOSITORY = Path(__file__).parents[3]
CUSTOMERS = "select customer, total, orders from customers order by customer"


@pytest.mark.soak
@pytest.mark.timeout(400)  # a Spark of its own takes a while to start on a busy machine
@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize(
    ("until", "moment"),
    [("stopped", "merged"), ("stopped", "staged"), ("caught_up", "merged")],
)
def test_a_killed_driver_neither_loses_nor_doubles_anything(
    mp: Milepost, url: str, spark: SparkSession, until: str, moment: str
) -> None:
    place(mp, 0, 90)
    killed = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.driver", moment, "2", until],
        cwd=REPOSITORY, env=os.environ | {"MILEPOST_URL": url}, timeout=300, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    # While one is staged, the one before it may just be committed.
    done = {"staged": (40, 60), "merged": (60,)}[moment]
    assert rows(mp, CUSTOMERS) in [expected_per_customer(count) for count in done]
    pipeline = mp.pipeline(
        "customers",
        sink=Upsert("customers", key=["customer"], add=["total", "orders"]),
        max_messages_per_batch=20,
    )(per_customer)
    catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(90)
