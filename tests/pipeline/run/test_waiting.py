"""Waiting until a pipeline's target shows what was appended: reading one's own writes."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from milepost import Milepost, Position, Upsert
from milepost.errors import WaitTimedOut
from milepost.pipeline.pipeline import Pipeline
from tests.pipeline.running import (
    catch_up,
    expected_per_customer,
    orders,
    per_customer,
    rows,
    running,
)

pytestmark = pytest.mark.usefixtures("spark_directory")
CUSTOMERS = "select customer, total, orders from customers order by customer"


def customers(mp: Milepost) -> Pipeline:
    sink = Upsert("customers", key=["customer"], add=["total", "orders"])
    return mp.pipeline("customers", topics=["orders"], sink=sink)(per_customer)


def placed(mp: Milepost, first: int, count: int, topic: str = "orders") -> Position:
    """The position of the last."""
    with mp.connect() as conn:
        return mp.append(conn, *orders(first, count, topic))[-1]


@pytest.mark.parametrize("order", ["append"])
def test_waiting_for_a_position_is_reading_ones_own_writes(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = customers(mp)
    with running(pipeline, spark):
        for n in range(0, 15, 5):
            pipeline.wait_for(placed(mp, n, 5), timeout=60)
            assert rows(mp, CUSTOMERS) == expected_per_customer(n + 5)
        assert pipeline.caught_up()


@pytest.mark.parametrize("order", ["append"])
def test_waiting_for_a_message_that_is_filtered_out_ends_too(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = customers(mp)
    catch_up(pipeline, spark)
    pipeline.wait_for(placed(mp, 0, 1, topic="others"))  # though nobody runs
    placed(mp, 0, 10)
    later = placed(mp, 0, 1, topic="others")
    assert not pipeline.caught_up()
    with pytest.raises(WaitTimedOut):
        pipeline.wait_for(later, timeout=0.05)
    catch_up(pipeline, spark)
    pipeline.wait_for(later)
    assert rows(mp, CUSTOMERS) == expected_per_customer(10)


@pytest.mark.parametrize("order", ["append"])
def test_waiting_for_a_message_in_flight_ends_when_the_target_shows_it(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = customers(mp)
    with running(pipeline, spark):
        with mp.connect() as conn, conn.transaction():
            position = mp.append(conn, *orders(0, 1))[-1]
            with pytest.raises(WaitTimedOut):
                pipeline.wait_for(position, timeout=0.1)
        pipeline.wait_for(position, timeout=60)
        assert rows(mp, CUSTOMERS) == expected_per_customer(1)


@pytest.mark.parametrize("order", ["append"])
def test_waiting_gives_up_with_an_error_that_says_where_the_pipeline_stands(mp: Milepost) -> None:
    pipeline = customers(mp)
    position = placed(mp, 0, 1)
    assert (pipeline.position(), pipeline.caught_up()) == (None, False)
    with pytest.raises(WaitTimedOut, match="See: milepost pipelines") as caught:
        pipeline.wait_for(position, timeout=0.05)
    error = caught.value
    assert (error.processor, error.position, error.checkpoint) == ("customers", position, None)
    assert str(error).startswith(f"Pipeline 'customers': had not reached {position} after 0.05 s")
