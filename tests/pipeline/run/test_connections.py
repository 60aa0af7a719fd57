"""What docs/production.md says about the connections of Spark, against what the server sees."""

from __future__ import annotations

import psycopg
import pytest
from pyspark.sql import SparkSession

from milepost import Milepost, RecordedMessage, Segment, Upsert, append
from milepost.db import Connection
from milepost.sql import LogOrder
from tests.connections import TEST, budget, watching
from tests.pipeline.engine.test_running import running as running_processor
from tests.pipeline.running import orders, per_customer
from tests.pipeline.running import running as running_pipeline
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("spark_directory")
CORES = 2  # of the session that these tests share
BATCH = 10_000  # shared out over both cores
ALL_PRESENT = "select count(distinct segment) from present"
CAUGHT_UP = 'select count(*) from milepost.checkpoints where "position" < %s'


@pytest.fixture
def order() -> LogOrder:
    return "append"


def place(url: str, count: int) -> int:
    """Through a connection that is not counted; where the log ends now."""
    with psycopg.connect(url, application_name=TEST) as conn:
        return append(conn, *orders(0, count))[-1].position


def has_reached(url: str, position: int) -> bool:
    with psycopg.connect(url, application_name=TEST) as conn:
        return conn.execute(CAUGHT_UP, [position]).fetchone() == (0,)


@pytest.mark.timeout(400)
def test_a_pipeline(mp: Milepost, url: str, spark: SparkSession) -> None:
    """While it catches up executors read and stage, then the driver stages the few rows of a small
    batch itself, and the connections of both stay."""
    sink = Upsert("customers", key=["customer"], add=["total", "orders"])
    define = mp.pipeline("customers", sink=sink, max_messages_per_batch=BATCH)
    pipeline = define(per_customer)
    expected = budget("a pipeline's driver", pipelines=1) + budget("its executors", cores=CORES)
    behind = place(url, 4 * BATCH)
    with watching(url) as watch, running_pipeline(pipeline, spark):
        wait_until(lambda: has_reached(url, behind), 120)
        last = place(url, 10)
        wait_until(lambda: has_reached(url, last), 120)
        wait_until(lambda: watch.most >= expected)
    assert watch.most == expected


def test_a_processor_on_spark(mp: Milepost, url: str, spark: SparkSession) -> None:
    """A task for each segment that is behind; they wait for each other."""
    with psycopg.connect(url, application_name=TEST) as conn:
        conn.execute("create table present (segment int)")

    @mp.processor("noting", segments=CORES, engine="spark")
    def meet(messages: list[RecordedMessage], tx: Connection, segment: Segment) -> None:
        with psycopg.connect(url, application_name=TEST, autocommit=True) as apart:
            apart.execute("insert into present values (%s)", [segment.id])
            wait_until(lambda: apart.execute(ALL_PRESENT).fetchone() == (CORES,))

    last = place(url, 1000)
    expected = budget("a processor on Spark", tasks=CORES)
    with watching(url) as watch, running_processor(meet, spark):
        wait_until(lambda: watch.most >= expected and has_reached(url, last), 120)
    assert watch.most == expected
