"""Spark's stateful operators in a pipeline, and what its directory means then."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from milepost import Append, Files, Message, Milepost, Upsert, append
from milepost.db import Connection
from milepost.errors import StateLost
from milepost.pipeline.pipeline import Pipeline
from tests.chaos.pipelines.sabotage import NOTE
from tests.pipeline.running import (
    catch_up,
    expected_per_customer,
    forget_last_commit,
    parsed,
    place,
    rows,
)
from tests.sabotage import replace_in

pytestmark = [
    pytest.mark.parametrize("order", ["append"]),
    pytest.mark.usefixtures("spark_directory"),
]
MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
CUSTOMERS = "select customer, total, orders from customers order by customer"


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    """transformWithState keeps its state there."""
    name = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(name)
    spark.conf.set(name, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    yield
    assert before is not None
    spark.conf.set(name, before)


def running_totals(messages: DataFrame) -> DataFrame:
    """Over all batches: Spark remembers, the sink replaces."""
    orders = parsed(messages).groupBy("customer")
    return orders.agg(f.sum("total").alias("total"), f.count("*").alias("orders"))


def test_an_aggregation_over_all_batches(mp: Milepost, spark: SparkSession) -> None:
    pipeline = mp.pipeline(
        "customers",
        sink=Upsert("customers", key=["customer"]),
        stateful=True,
        max_messages_per_batch=20,
    )(running_totals)
    place(mp, 0, 30)
    catch_up(pipeline, spark)
    place(mp, 30, 15)
    catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(45)


def test_a_replayed_batch_moves_spark_on_but_is_not_written_again(
    mp: Milepost, spark: SparkSession, spark_directory: Path
) -> None:
    """`add` shows it: the second writing would count twice, a lost state too little. Both together
    would write more rows."""

    def deltas(messages: DataFrame) -> DataFrame:
        return running_totals(messages).select("customer", f.col("orders").alias("updates"))

    pipeline = mp.pipeline(
        "customers", sink=Upsert("customers", key=["customer"], add=["updates"]), stateful=True
    )(deltas)
    place(mp, 0, 10)
    catch_up(pipeline, spark)
    forget_last_commit(spark_directory / "milepost" / "customers" / "v1")
    place(mp, 10, 10)
    catch_up(pipeline, spark)
    assert rows(mp, "select distinct updates from customers") == [(1 + 2,)]
    assert rows(mp, "select rows from milepost.pipelines") == [(10 + 10,)]


def arrive(mp: Milepost, *minutes: int) -> None:
    with mp.connect() as conn:
        for minute in minutes:
            at = MIDNIGHT + timedelta(minutes=minute)
            append(conn, Message("Arrived", {"at": at.isoformat()}))


def windows(mp: Milepost) -> Pipeline:
    """What closes a window is a batch of Spark's without messages, behind the one that moved the
    watermark; so its rows come without a move of the checkpoint."""

    @mp.pipeline("arrivals", sink=Append("arrivals"), stateful=True, output_mode="append")
    def arrivals(messages: DataFrame) -> DataFrame:
        at = f.to_timestamp(f.get_json_object("data", "$.at")).alias("at")
        windows = (
            messages.select(at)
            .withWatermark("at", "10 minutes")
            .groupBy(f.window("at", "10 minutes"))
        )
        return windows.agg(f.count("*").alias("n")).select("window.start", "n")

    return arrivals


def test_windows_with_a_watermark_are_written_once_they_are_closed(
    mp: Milepost, spark: SparkSession
) -> None:
    arrivals = windows(mp)
    arrive(mp, 1, 2, 11)
    catch_up(arrivals, spark)
    assert rows(mp, "select start, n from arrivals") == []
    arrive(mp, 3, 50)  # 3 is late, but not too late
    catch_up(arrivals, spark)
    found = rows(mp, "select start, n from arrivals order by start")
    assert found == [(MIDNIGHT, 3), (MIDNIGHT + timedelta(minutes=10), 1)]


@pytest.mark.parametrize(("is_noted", "times"), [(True, 1), (False, 2)])
def test_a_replayed_batch_without_messages_is_written_once_because_it_was_noted(
    mp: Milepost, spark: SparkSession, conn: Connection, spark_directory: Path, is_noted: bool,
    times: int,
) -> None:  # fmt: skip
    """The checkpoint does not tell: such a batch does not move it."""
    if not is_noted:
        replace_in(conn, *NOTE)
    arrivals = windows(mp)
    arrive(mp, 1, 2, 31)
    catch_up(arrivals, spark)
    assert rows(mp, "select n from arrivals") == [(2,)]
    forget_last_commit(spark_directory / "milepost" / "arrivals" / "v1")
    catch_up(arrivals, spark)
    assert rows(mp, "select n from arrivals") == [(2,)] * times


class FirstAndCount(StatefulProcessor):
    """Remembers each customer's first order."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getValueState("seen", "first bigint, n bigint")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        totals = [row.total for row in rows]
        first, n = self.seen.get() or (min(totals), 0)
        self.seen.update((first, n + len(totals)))
        yield Row(customer=key[0], first=first, n=n + len(totals))

    def close(self) -> None:
        pass


@pytest.mark.soak  # a Python process for each batch and partition
@pytest.mark.usefixtures("rocksdb")
def test_transform_with_state(mp: Milepost, spark: SparkSession) -> None:
    @mp.pipeline(
        "firsts",
        sink=Upsert("firsts", key=["customer"]),
        stateful=True,
        max_messages_per_batch=20,
    )
    def firsts(messages: DataFrame) -> DataFrame:
        return (
            parsed(messages)
            .groupBy("customer")
            .transformWithState(
                FirstAndCount(), "customer string, first bigint, n bigint", "Update", "None"
            )
        )

    place(mp, 0, 30)
    catch_up(firsts, spark)
    found = rows(mp, "select customer, first, n from firsts order by customer")
    assert found == [(f"c{n}", n, 3) for n in range(10)]


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [("stateful", "milepost pipelines rebuild kept"), ("files", "another path")],
)
def test_without_its_directory_it_refuses_and_says_what_to_do(
    mp: Milepost, spark: SparkSession, spark_directory: Path, tmp_path: Path, kind: str,
    remedy: str,
) -> None:  # fmt: skip
    if kind == "files":
        pipeline = mp.pipeline("kept", sink=Files(str(tmp_path / "out")))(parsed)
    else:
        sink = Upsert("customers", key=["customer"])
        pipeline = mp.pipeline("kept", sink=sink, stateful=True)(running_totals)
    place(mp, 0, 10)
    catch_up(pipeline, spark)
    before = pipeline.position()
    shutil.rmtree(spark_directory)
    place(mp, 10, 10)
    with pytest.raises(StateLost, match=remedy):
        catch_up(pipeline, spark)
    assert pipeline.position() == before
    ((state, error),) = rows(mp, "select state, last_error from milepost.pipelines")
    assert (state, str(error)[:11]) == ("failed", "StateLost: ")


def test_files_go_on_though_their_checkpoint_has_not_followed_before_a_kill(
    mp: Milepost, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's file sink decides what is done: the checkpoint may be batches behind it."""
    path = str(tmp_path / "out")
    sink = Files(path)
    pipeline = mp.pipeline("files", sink=sink, max_messages_per_batch=5)(parsed)
    place(mp, 0, 10)
    catch_up(pipeline, spark)
    with mp.connect() as conn:
        conn.execute("update milepost.checkpoints set position = 5 where processor = 'files'")
    place(mp, 10, 5)
    catch_up(pipeline, spark)
    assert sorted(row.total for row in spark.read.parquet(path).collect()) == list(range(15))
    assert pipeline.caught_up()
