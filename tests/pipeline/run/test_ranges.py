"""A pipeline without state writes range after range, and stages one while it merges the other. It
has no stream, and no directory of Spark's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from milepost import Milepost, Position, Upsert
from milepost.checkpoints import CheckpointKey, PostgresCheckpointStore
from milepost.errors import CompetingPipeline
from milepost.pipeline import admin
from milepost.pipeline.pipeline import Pipeline
from milepost.sql import LogOrder
from tests.pipeline.running import (
    catch_up,
    expected_per_customer,
    follow,
    per_customer,
    place,
    rows,
    runner_of,
    running,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("spark_directory")
CUSTOMERS = "select customer, total, orders from customers order by customer"
SINK = Upsert("customers", key=["customer"], add=["total", "orders"])
KEY = CheckpointKey("customers")


@pytest.fixture
def order() -> LogOrder:
    """Most of this does not depend on the order."""
    return "append"


def customers(mp: Milepost, at_batch: dict[int, Callable[[], None]] | None = None) -> Pipeline:
    """In batches of ten. `at_batch`: what is to happen as a batch's output is asked for."""
    calls = 0

    def function(messages: DataFrame) -> DataFrame:
        nonlocal calls
        calls += 1
        (at_batch or {}).get(calls, lambda: None)()
        return per_customer(messages)

    return mp.pipeline("customers", topics=["orders"], sink=SINK, max_messages_per_batch=10)(
        function
    )


def newest(mp: Milepost) -> Position:
    return list(mp.read())[-1].position


@pytest.mark.parametrize("order", ["append", "transaction"])
def test_to_the_end_of_the_log_without_a_directory_of_sparks(
    mp: Milepost, spark: SparkSession, spark_directory: Path
) -> None:
    pipeline = customers(mp)
    place(mp, 0, 95)
    catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(95)
    assert pipeline.position() == newest(mp)
    assert not spark_directory.exists()


def test_a_run_that_ends_and_one_that_goes_on_take_turns(
    mp: Milepost, spark: SparkSession, spark_directory: Path
) -> None:
    pipeline, placed = customers(mp), 0
    catch_up(pipeline, spark)
    for count, run in ((9, follow), (30, follow), (3, catch_up), (2, follow)):
        place(mp, placed, count)
        placed += count
        run(pipeline, spark)
        assert rows(mp, CUSTOMERS) == expected_per_customer(placed)
    assert pipeline.position() == newest(mp)
    assert not spark_directory.exists()


def test_what_comes_later_is_written_as_it_comes(mp: Milepost, spark: SparkSession) -> None:
    pipeline = customers(mp)
    place(mp, 0, 45)
    with running(pipeline, spark):
        wait_until(lambda: pipeline.position() == newest(mp))
        assert rows(mp, CUSTOMERS) == expected_per_customer(45)
        place(mp, 45, 5)
        wait_until(lambda: rows(mp, CUSTOMERS) == expected_per_customer(50))


def test_a_trigger_makes_each_batch_wait_for_the_one_before(
    mp: Milepost, url: str, spark: SparkSession
) -> None:
    """A second batch would be due in an hour. A run that ends by itself does not wait."""

    def pipeline_of(mp: Milepost) -> Pipeline:
        options: Any = {"topics": ["orders"], "sink": SINK, "max_messages_per_batch": 10}
        return mp.pipeline("customers", trigger="1 hour", **options)(per_customer)

    place(mp, 0, 25)
    with running(first := pipeline_of(mp), spark):
        wait_until(lambda: first.position() == Position(0, 10))
        # As long as many batches take: an order of the operators is seen while it waits.
        with mp.connect() as conn:
            admin.set_paused(conn, mp.schema, "customers", is_paused=True)
            admin.set_paused(conn, mp.schema, "customers", is_paused=False)
        assert _orders(mp) == 10
    catch_up(pipeline_of(Milepost(url)), spark)
    assert _orders(mp) == 25


def test_others_messages_are_passed_over(mp: Milepost, spark: SparkSession) -> None:
    pipeline = customers(mp)
    for first in range(0, 60, 20):
        place(mp, first, 20)
        place(mp, 0, 300, topic="elsewhere")
    catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(60)
    assert pipeline.position() == newest(mp)


def test_what_fails_leaves_whole_batches_and_goes_on_there(
    mp: Milepost, url: str, spark: SparkSession
) -> None:
    def fail() -> None:
        raise ArithmeticError("no more")

    place(mp, 0, 95)
    with pytest.raises(ArithmeticError, match="no more"):
        catch_up(customers(mp, {4: fail}), spark)
    done = _orders(mp)
    assert done in (10, 20)  # the third was staged, and perhaps the second not yet merged
    catch_up(customers(Milepost(url)), spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(95)


def test_a_competitor_is_named_and_nothing_counts_twice(mp: Milepost, spark: SparkSession) -> None:
    def compete() -> None:
        with mp.connect() as conn:
            store = PostgresCheckpointStore(conn)
            held = store.load(KEY)
            assert held is not None
            store.store(KEY, held.position, newest(mp), owner="the other one")

    place(mp, 0, 95)
    with pytest.raises(CompetingPipeline, match="the other one"):
        catch_up(customers(mp, {4: compete}), spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(_orders(mp))


def test_a_pause_holds_the_next_merge(mp: Milepost, spark: SparkSession) -> None:
    def pause() -> None:
        with mp.connect() as conn:
            admin.set_paused(conn, mp.schema, "customers", is_paused=True)

    place(mp, 0, 95)
    pipeline = customers(mp, {4: pause})
    with running(pipeline, spark) as started:
        wait_until(lambda: rows(mp, "select from milepost.pipelines where is_paused") != [])
        held = _orders(mp)
        with pytest.raises(AssertionError):
            wait_until(lambda: _orders(mp) > held + 10, seconds=3)
        assert started.error is None
        with mp.connect() as conn:
            admin.set_paused(conn, mp.schema, "customers", is_paused=False)
        wait_until(lambda: _orders(mp) == 95)
    assert rows(mp, CUSTOMERS) == expected_per_customer(95)


def test_a_stop_ends_it_at_a_batch(mp: Milepost, url: str, spark: SparkSession) -> None:
    place(mp, 0, 95)
    pipeline = customers(mp, {3: lambda: runner.stop.set()})
    runner = runner_of(pipeline, spark)
    runner.run()
    assert 0 < _orders(mp) < 95
    assert _orders(mp) % 10 == 0
    catch_up(customers(Milepost(url)), spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(95)


def test_two_tables_for_staging_are_dropped_with_the_version(
    mp: Milepost, spark: SparkSession
) -> None:
    place(mp, 0, 95)
    pipeline = customers(mp)
    catch_up(pipeline, spark)
    pipeline.rebuild(drop_old=True, max_messages=10)
    names = rows(mp, "select relname from pg_class where relname like 'staging%v1%'")
    assert names == []
    assert rows(mp, CUSTOMERS) == expected_per_customer(95)


def _orders(mp: Milepost) -> int:
    found = rows(mp, "select coalesce(sum(orders), 0)::integer from customers")
    assert isinstance(found[0][0], int)
    return found[0][0]
