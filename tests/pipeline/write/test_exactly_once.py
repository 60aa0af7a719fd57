"""Every message counts once: replays, lost directories, competitors, retried tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from milepost import Milepost, Position, Upsert, append
from milepost.checkpoints import CheckpointKey, PostgresCheckpointStore
from milepost.db import Connection
from milepost.errors import CompetingPipeline
from milepost.pipeline.names import TURNS, staging_name
from milepost.pipeline.pipeline import Pipeline
from milepost.pipeline.write import SparkBatch, spark_sums, staging
from milepost.pipeline.write.staging import Copy
from milepost.sql import LogOrder
from tests.chaos.pipelines.sabotage import NOTE
from tests.chaos.processors.sabotage import STORE_WITHOUT_COMPARING
from tests.pipeline.running import (
    Running,
    catch_up,
    expected_per_customer,
    orders,
    per_customer,
    place,
    rows,
    runner_of,
    running,
)
from tests.pipeline.writing import frame, next_range, writing
from tests.sabotage import replace_in
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("spark_directory")
CUSTOMERS = "select customer, total, orders from customers order by customer"
SINK = Upsert("customers", key=["customer"], add=["total", "orders"])
KEY = CheckpointKey("customers")


@pytest.fixture
def order() -> LogOrder:
    """Most of this does not depend on the order."""
    return "append"


def customers(mp: Milepost, **options: Any) -> Pipeline:
    return mp.pipeline("customers", topics=["orders"], sink=SINK, **options)(per_customer)


def left_in_staging(mp: Milepost) -> int:
    """In the tables of all turns; the first is always there."""
    count = 0
    for turn in range(TURNS):
        name = f"milepost.{staging_name('customers', 1, turn)}"
        if rows(mp, f"select to_regclass('{name}')") != [(None,)]:
            count += len(rows(mp, f"select from {name}"))
    return count


@pytest.mark.parametrize("order", ["append", "transaction"])
def test_what_is_filtered_out_moves_the_checkpoint_too(mp: Milepost, spark: SparkSession) -> None:
    pipeline = customers(mp, max_messages_per_batch=10)
    place(mp, 0, 25)
    place(mp, 0, 40, topic="elsewhere")
    catch_up(pipeline, spark)
    newest = rows(mp, "select max((transaction_id, position)::text) from milepost.messages")
    assert pipeline.position() is not None
    assert rows(mp, CUSTOMERS) == expected_per_customer(25)
    last = list(mp.read())[-1].position
    assert pipeline.position() == last, newest


def test_a_batch_of_nothing_but_others_messages_moves_the_checkpoint(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = customers(mp)
    place(mp, 0, 40, topic="elsewhere")
    catch_up(pipeline, spark)
    assert pipeline.position() == list(mp.read())[-1].position


def test_a_reset_is_followed_while_there_is_nothing_to_do(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = customers(mp)
    place(mp, 0, 30)
    with running(pipeline, spark):
        wait_until(lambda: pipeline.position() == mp.horizon())
        with mp.connect() as conn, conn.transaction():
            PostgresCheckpointStore(conn).reset(KEY, Position.BEGINNING)
            conn.execute("truncate customers__v1")
        wait_until(lambda: rows(mp, CUSTOMERS) == expected_per_customer(30))


def test_a_competitor_is_noticed_while_there_is_nothing_to_do(
    mp: Milepost, spark: SparkSession
) -> None:
    """The next batch would have been refused. Now it is known before."""
    pipeline = customers(mp)
    driver = Running(runner_of(pipeline, spark))
    wait_until(lambda: pipeline.position() is not None)
    with mp.connect() as conn, conn.transaction():  # it does not see the message before the move
        append(conn, *orders(0, 10))
        PostgresCheckpointStore(conn).store(
            KEY, Position.BEGINNING, Position(0, 10), owner="the-other"
        )
    driver.join()
    assert isinstance(driver.error, CompetingPipeline)
    assert driver.error.other == "the-other"


def test_a_reset_is_followed_while_it_runs(mp: Milepost, spark: SparkSession) -> None:
    pipeline = customers(mp)
    place(mp, 0, 30)
    with running(pipeline, spark):
        wait_until(lambda: pipeline.position() == mp.horizon())
        with mp.connect() as conn, conn.transaction():
            PostgresCheckpointStore(conn).reset(KEY, Position.BEGINNING)
            conn.execute("truncate customers__v1")
        place(mp, 30, 30)
        wait_until(lambda: pipeline.position() == mp.horizon())
    assert rows(mp, CUSTOMERS) == expected_per_customer(60)


def test_a_driver_whose_checkpoint_was_moved_meanwhile_writes_nothing_and_names_the_other(
    mp: Milepost, spark: SparkSession
) -> None:
    def moving(messages: DataFrame) -> DataFrame:
        with mp.connect() as conn:
            PostgresCheckpointStore(conn).store(
                KEY, Position.BEGINNING, mp.horizon(), owner="the-other"
            )
        return per_customer(messages)

    pipeline = mp.pipeline("customers", sink=SINK)(moving)
    place(mp, 0, 30)
    driver = Running(runner_of(pipeline, spark))
    driver.join()
    assert isinstance(driver.error, CompetingPipeline)
    assert driver.error.other == "the-other"
    assert rows(mp, CUSTOMERS) == []
    assert rows(mp, "select state, last_error like '%the-other%' from milepost.pipelines") == [
        ("failed", True)
    ]


def test_of_two_drivers_one_stops_and_every_message_counts_once(
    mp: Milepost, spark: SparkSession
) -> None:
    first = customers(mp)
    second = customers(Milepost(first.runtime.url))
    place(mp, 0, 10)
    pair = [Running(runner_of(first, spark)), Running(runner_of(second, spark))]
    try:
        placed = 10
        # The first batch that both have seen decides; how many come before, when both are up.
        while all(one.error is None for one in pair) and placed < 5_000:
            place(mp, placed, 10)
            placed += 10
            wait_until(lambda: first.position() == mp.horizon() or any(one.error for one in pair))
        loser = next(one for one in pair if one.error is not None)
        winner = next(one for one in pair if one is not loser)
        assert isinstance(loser.error, CompetingPipeline)
        assert loser.error.other == winner.runner.status.owner
        wait_until(lambda: first.position() == mp.horizon())
    finally:
        for one in pair:
            one.stop()
    assert rows(mp, CUSTOMERS) == expected_per_customer(placed)


@pytest.mark.parametrize(
    ("taken_out", "times"),
    [((), 1), (("store",), 1), (("note",), 1), (("store", "note"), 2)],
)
def test_a_batch_of_a_stream_is_written_once_by_each_of_two_fences(
    mp: Milepost, spark: SparkSession, conn: Connection, taken_out: tuple[str, ...], times: int
) -> None:
    """By two drivers, of which one has asked for the checkpoint before the other moved it."""
    if "store" in taken_out:
        conn.execute(STORE_WITHOUT_COMPARING)
    if "note" in taken_out:
        replace_in(conn, *NOTE)
    order = frame(spark, "customer string, total bigint, orders bigint", ("a", 5, 1))
    with writing(mp, SINK) as one, writing(mp, SINK) as other:
        conn.execute("update milepost.pipelines set spark_run = 'run'")
        range_, batch = next_range(one), SparkBatch("run", 0)
        one.apply(order, range_, batch)
        with nullcontext() if "store" in taken_out else pytest.raises(CompetingPipeline):
            other.apply(order, range_, batch)
    assert rows(mp, CUSTOMERS) == [("a", 5 * times, times)]


def failing_after_copy(copy: Copy) -> Copy:
    """Every task fails once, after it has copied all its rows."""

    def copy_and_fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        answers = list(copy(batches))
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            raise RuntimeError("lost, with everything copied")
        yield from answers

    return copy_and_fail


@pytest.mark.parametrize(("least_cores", "left"), [(1, 20), (100, 40)])
def test_the_rows_of_a_failed_attempt_are_not_merged(
    mp: Milepost, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, least_cores: int, left: int
) -> None:
    """Two attempts of each task stage a row for each customer: of both tasks that read, or of those
    that add up over both."""
    make: Callable[..., Copy] = staging.copy_function
    monkeypatch.setattr(staging, "SMALL_ROWS", 0)
    monkeypatch.setattr(spark_sums, "LEAST_CORES", least_cores)
    monkeypatch.setattr(spark_sums, "LEAST_MESSAGES", 0)
    monkeypatch.setattr(staging, "copy_function", lambda *a, **k: failing_after_copy(make(*a, **k)))
    pipeline = customers(mp, partitions=2)
    place(mp, 0, 100)
    catch_up(pipeline, spark)
    assert left_in_staging(mp) == left
    assert rows(mp, CUSTOMERS) == expected_per_customer(100)


def test_staging_is_swept_between_batches_and_at_the_start(
    mp: Milepost, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "SWEEP_ROWS", 50)
    pipeline = customers(mp, max_messages_per_batch=30)
    place(mp, 0, 90)
    catch_up(pipeline, spark)
    assert left_in_staging(mp) == 30  # the second batch; the first and third shared a table
    catch_up(pipeline, spark)
    assert left_in_staging(mp) == 0


def test_a_task_that_still_copies_does_not_hold_up_the_sweep(
    mp: Milepost, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "SWEEP_ROWS", 1)
    pipeline = customers(mp)
    place(mp, 0, 10)
    catch_up(pipeline, spark)
    name = staging_name("customers", 1)
    with mp.connect() as zombie, zombie.transaction():
        zombie.execute(f"insert into milepost.{name} (_attempt, customer) values (1, 'z')".encode())  # noqa: S608
        place(mp, 10, 10)
        catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(20)


def test_rows_that_were_lost_from_staging_are_staged_again(
    mp: Milepost, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash of the server empties unlogged tables; a competitor's sweep does so too."""
    stage = staging.Staging.stage
    lost: list[staging.Staged] = []

    def losing(self: staging.Staging, *arguments: Any) -> staging.Staged:
        staged = stage(self, *arguments)
        if not lost:
            lost.append(staged)
            rows_before = left_in_staging(mp)
            assert rows_before == staged.rows
            with mp.connect() as conn:
                conn.execute(f"truncate milepost.{self.name}".encode())
        return staged

    monkeypatch.setattr(staging.Staging, "stage", losing)
    pipeline = customers(mp)
    place(mp, 0, 40)
    catch_up(pipeline, spark)
    assert lost
    assert rows(mp, CUSTOMERS) == expected_per_customer(40)
