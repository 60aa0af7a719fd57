"""A rebuild that is killed in the middle goes on where it stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from milepost import Milepost
from tests.integration.cli.command import Cli
from tests.pipeline.rebuilding import CUSTOMERS, active_version, customers, rebuild_of
from tests.pipeline.running import catch_up, expected_per_customer, place, rows
from tests.waiting import wait_until

pytestmark = pytest.mark.parametrize("order", ["append"])
COUNT = 3_000
FILLED = "select position from milepost.checkpoints where version = 2 and position > 0"


def test_a_killed_rebuild_goes_on_where_it_stopped(
    mp: Milepost, url: str, spark: SparkSession, spark_directory: Path
) -> None:
    pipeline = customers(mp, batch=COUNT)
    place(mp, 0, COUNT)
    catch_up(pipeline, spark)
    cli = Cli(url, {"MILEPOST_SPARK_MASTER": "local[1]"})
    process = cli.start(
        "pipelines", "rebuild", "customers", "tests.pipeline.application:mp", "--max-messages", "50"
    )
    try:
        wait_until(
            lambda: process.poll() is not None or rows(mp, FILLED), seconds=150, look_seconds=0.3
        )
    finally:
        process.kill()
        _, errors = process.communicate()
    assert process.returncode == -9, errors
    assert active_version(mp) == 1
    place(mp, COUNT, 10)

    rebuilt = rebuild_of(pipeline, spark, max_messages=COUNT).run()
    assert rebuilt.version == 2
    assert rebuilt.rows < COUNT  # what was filled before is not filled again
    assert rows(mp, CUSTOMERS) == expected_per_customer(COUNT + 10)
