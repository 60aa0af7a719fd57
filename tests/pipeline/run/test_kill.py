"""A driver that is killed in the middle of a batch, and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from milepost import Milepost, Upsert
from tests.pipeline.running import (
    catch_up,
    expected_per_customer,
    per_customer,
    place,
    rows,
    stream,
)

REPOSITORY = Path(__file__).parents[3]
CUSTOMERS = "select customer, total, orders from customers order by customer"


@pytest.mark.soak
@pytest.mark.timeout(400)  # a Spark of its own takes a while to start on a busy machine
@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize(
    ("way", "moment", "is_directory_lost"),
    [
        ("stream", "merged", False),
        ("stream", "staged", False),
        ("stream", "merged", True),
        ("ranges", "merged", True),  # which do not use it
    ],
)
def test_a_killed_driver_neither_loses_nor_doubles_anything(
    mp: Milepost, url: str, spark: SparkSession, spark_directory: Path, way: str, moment: str,
    is_directory_lost: bool,
) -> None:  # fmt: skip
    place(mp, 0, 90)
    killed = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.driver", moment, "2", way],
        cwd=REPOSITORY, env=os.environ | {"MILEPOST_URL": url}, timeout=300, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    done = {"staged": [40], "merged": [60]}[moment]
    if way == "ranges":
        done.append(60)  # while one is staged, the one before it may just be committed
    assert rows(mp, CUSTOMERS) in [expected_per_customer(count) for count in done]
    if is_directory_lost:
        shutil.rmtree(spark_directory)
    pipeline = mp.pipeline(
        "customers",
        sink=Upsert("customers", key=["customer"], add=["total", "orders"]),
        max_messages_per_batch=20 if way == "ranges" else 100,
    )(per_customer)
    finish = catch_up if way == "ranges" else stream
    finish(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(90)
