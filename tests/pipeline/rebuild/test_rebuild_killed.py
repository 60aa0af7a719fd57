"""A rebuild that is interrupted in the middle, by SIGKILL or Ctrl-C, goes on where it stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from milepost import Milepost
from milepost.pipeline.rebuild.swap import Progress
from tests.integration.cli.command import Cli
from tests.pipeline.own_spark import BRIEF_VARIABLE
from tests.pipeline.rebuilding import CUSTOMERS, active_version, customers, rebuild_of, tables
from tests.pipeline.running import catch_up, expected_per_customer, place, rows
from tests.waiting import wait_until

pytestmark = pytest.mark.parametrize("order", ["append"])
COUNT = 3_000
FILLED = "select position from milepost.checkpoints where version = 2 and position > 0"


@pytest.mark.soak
def test_a_killed_rebuild_goes_on_where_it_stopped(
    mp: Milepost, url: str, spark: SparkSession, spark_directory: Path
) -> None:
    pipeline = customers(mp, batch=COUNT)
    place(mp, 0, COUNT)
    catch_up(pipeline, spark)
    with mp.connect() as reader, reader.transaction():
        reader.execute("select from customers")  # while somebody reads it, nothing is swapped
        kill_when_it_has_begun_to_fill(mp, url)
    assert active_version(mp) == 1
    place(mp, COUNT, 10)

    rebuilt = rebuild_of(pipeline, spark, max_messages=COUNT).run()
    assert rebuilt.version == 2
    assert rebuilt.rows < COUNT  # what was filled before is not filled again
    assert rows(mp, CUSTOMERS) == expected_per_customer(COUNT + 10)


def kill_when_it_has_begun_to_fill(mp: Milepost, url: str) -> None:
    cli = Cli(url, {"MILEPOST_SPARK_MASTER": "local[1]", "MILEPOST_SPARK_CONF": BRIEF_VARIABLE})
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


def test_an_interrupted_rebuild_says_so_and_goes_on_with_the_same_version(
    mp: Milepost, spark: SparkSession, spark_directory: Path
) -> None:
    pipeline = customers(mp, batch=200)
    place(mp, 0, 200)
    catch_up(pipeline, spark)
    work = rebuild_of(pipeline, spark, max_messages=50)

    def press_control_c(progress: Progress) -> None:
        if progress.done == 100:
            raise KeyboardInterrupt

    work.watch = press_control_c
    with pytest.raises(KeyboardInterrupt):
        work.run()
    listed = rows(mp, "select version, state, last_error from milepost.pipelines order by version")
    assert listed == [(1, "stopped", None), (2, "stopped", None)]
    assert active_version(mp) == 1
    rebuilt = rebuild_of(pipeline, spark, drop=True).run()
    assert (rebuilt.version, rebuilt.rows, rebuilt.is_old_dropped) == (2, 100, True)
    assert rows(mp, CUSTOMERS) == expected_per_customer(200)
    assert tables(mp) == ["customers__v2"]
