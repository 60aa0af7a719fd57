"""A driver that is killed in the middle of a batch, or of the search for bad messages, and started
again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from milepost import Milepost, Upsert
from tests.pipeline.run.test_skipping import letters, place_bad
from tests.pipeline.running import catch_up, expected_per_customer, per_customer, place, rows
from tests.pipeline.searching import searching

REPOSITORY = Path(__file__).parents[3]
CUSTOMERS = "select customer, total, orders from customers order by customer"


# Where it is killed, and what is there then: how many orders and letters. Each driver continues
# the search of the one before.
SEARCH = [
    ("moved", 0, 0),
    ("committed", 1, 0),
    ("moved", 1, 0),
    ("committed", 1, 1),
]


def run_and_die(url: str, *words: str) -> None:
    killed = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=REPOSITORY, env=os.environ | {"MILEPOST_URL": url}, timeout=300, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL


@pytest.mark.soak
@pytest.mark.timeout(400)  # a Spark of its own takes a while to start on a busy machine
@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize(
    ("until", "moment"),
    [("stopped", "staged"), ("caught_up", "merged")],
)
def test_a_killed_driver_neither_loses_nor_doubles_anything(
    mp: Milepost, url: str, spark: SparkSession, until: str, moment: str
) -> None:
    place(mp, 0, 90)
    run_and_die(url, "tests.pipeline.driver", moment, "2", until)
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


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("order", ["append"])
def test_a_driver_that_is_killed_at_each_step_of_its_search_skips_only_what_is_bad(
    mp: Milepost, url: str, spark: SparkSession, spark_directory: Path
) -> None:
    """A range of good and bad messages in turn: what is left of it always has to be halved."""
    for n in range(2):
        place(mp, n, 1)
        place_bad(mp, "~")
    bad = [message.position for message in mp.read() if message.key == "bad"]
    for moment, orders, set_aside in SEARCH:
        run_and_die(url, "tests.pipeline.searching", moment)
        assert _customers(mp) == expected_per_customer(orders)
        assert [letter.at for letter in letters(mp)] == bad[:set_aside]
    catch_up(searching(mp), spark)
    assert _customers(mp) == expected_per_customer(2)
    assert [(letter.at, letter.attempts) for letter in letters(mp)] == [(at, 2) for at in bad]


def _customers(mp: Milepost) -> list[tuple[object, ...]]:
    """None before the first driver has made the table."""
    is_made = rows(mp, "select to_regclass('customers')") != [(None,)]
    return rows(mp, CUSTOMERS) if is_made else []
