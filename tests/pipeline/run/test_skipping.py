"""Messages that make a batch fail: found, named, set aside, retried; the rest is written once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Message, Milepost, Position, Upsert, append
from milepost.checkpoints import CheckpointKey, PostgresCheckpointStore
from milepost.db import Connection
from milepost.errors import BadMessage, CompetingPipeline, FunctionFailed
from milepost.pipeline import admin
from milepost.pipeline.pipeline import Pipeline
from milepost.pipeline.run.bad_messages.data_failures import cause_of, is_of_data
from milepost.pipeline.source import Range
from milepost.pipeline.write import LetterGone, staging
from milepost.processors.set_aside import dead_letters
from milepost.processors.set_aside.dead_letters import DeadLetter
from milepost.retry import Retry
from milepost.runtime import Backoff
from milepost.sql import LogOrder
from tests.pipeline.archived import Archive
from tests.pipeline.rebuilding import forget, rebuild_of
from tests.pipeline.running import (
    catch_up,
    expected_per_customer,
    per_customer,
    place,
    rows,
    runner_of,
    running,
    setup_of,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("spark_directory")
CUSTOMERS = "select customer, total, orders from customers order by customer"
SINK = Upsert("customers", key=["customer"], add=["total", "orders"])
LARGE = 2**62
END_SESSIONS = """
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and application_name like 'milepost customers%'
"""


@pytest.fixture
def order() -> LogOrder:
    """Most of this does not depend on the order."""
    return "append"


def customers(mp: Milepost, *, is_fixed: bool = False, **options: Any) -> Pipeline:
    """It makes a character of ~ that PostgreSQL's text does not have, unless it is fixed."""
    forget(mp, "customers")
    given: dict[str, Any] = {
        "on_failure": "skip",
        "max_messages_per_batch": 30,
        "topics": ["orders"],
    } | options

    def function(messages: DataFrame) -> DataFrame:
        found = per_customer(messages)
        return (
            found if is_fixed else found.withColumn("customer", f.translate("customer", "~", "\0"))
        )

    return mp.pipeline("customers", sink=SINK, **given)(function)


def place_bad(mp: Milepost, *names: str, total: int = 1, key: str = "bad") -> None:
    with mp.connect() as conn:
        data = [{"customer": name, "total": total} for name in names]
        append(conn, *(Message("OrderPlaced", each, key=key, topic="orders") for each in data))


def letters(mp: Milepost, version: int | None = None) -> list[DeadLetter]:
    with mp.connect() as conn:
        found = dead_letters.list_dead_letters(conn, mp.schema)
    return [letter for letter in found if version in (None, letter.version)]


def request(mp: Milepost) -> None:
    with mp.connect() as conn:
        dead_letters.request_retry(conn, mp.schema, [letter.id for letter in letters(mp)])


@pytest.mark.parametrize("order", ["append", "transaction"])
def test_bad_messages_become_dead_letters_and_the_rest_is_written(
    mp: Milepost, spark: SparkSession
) -> None:
    """A character that PostgreSQL has not, and a sum that overflows, in two batches. Others'
    messages are in between."""
    place(mp, 0, 6)
    place(mp, 0, 3, topic="elsewhere")
    place_bad(mp, "~", key="zero")
    place_bad(mp, "large", "large", total=LARGE, key="large")
    place(mp, 6, 6)
    place_bad(mp, "a~z", key="last")
    pipeline = customers(mp, max_messages_per_batch=12)
    catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == [*expected_per_customer(12), ("large", LARGE, 1)]
    assert pipeline.position() == mp.horizon()
    found = letters(mp)
    assert [letter.key for letter in found] == ["zero", "large", "last"]
    assert [letter.attempts for letter in found] == [2, 2, 2]
    assert "0x00" in found[0].error
    assert "bigint out of range" in found[1].error
    assert not any("\n" in letter.error for letter in found)
    with mp.connect() as conn:
        (status,) = admin.list_pipelines(conn, mp.schema)
    assert (status.dead_letters, status.last_error) == (3, None)


def test_what_a_task_copies_is_the_datas_failure_too(
    mp: Milepost, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "SMALL_ROWS", 0)
    one = spark.createDataFrame([("\0", 3, 1)], "customer string, total bigint, orders bigint")
    with mp.connect() as conn:
        stage = setup_of(customers(mp), spark).writer(conn, "me", 0).staging_of(one, 1)
        with pytest.raises(PySparkException) as caught:
            stage()
    assert is_of_data(caught.value)
    assert cause_of(caught.value).startswith("invalid byte sequence")


def test_a_pipeline_that_stops_names_the_message_and_not_its_data(
    mp: Milepost, spark: SparkSession
) -> None:
    place(mp, 0, 8)
    place_bad(mp, "secret~", key="k")
    place(mp, 8, 4)
    pipeline = customers(mp, on_failure="stop")
    with pytest.raises(BadMessage) as caught:
        catch_up(pipeline, spark)
    before, bad = [message.position for message in mp.read()][7:9]
    text = str(caught.value)
    assert f"the message at {bad} (topic 'orders', type 'OrderPlaced', key 'k')" in text
    assert "invalid byte sequence" in text
    assert "secret" not in text
    assert rows(mp, CUSTOMERS) == expected_per_customer(8)
    assert letters(mp) == []
    assert pipeline.position() == before
    catch_up(customers(mp, on_failure="stop", is_fixed=True), spark)
    assert rows(mp, CUSTOMERS) == [*expected_per_customer(12), ("secret~", 1, 1)]


def test_a_function_of_python_that_raises(mp: Milepost, spark: SparkSession) -> None:
    def refuse(total: int) -> int:
        raise ValueError(f"{total} is refused")

    @mp.pipeline("customers", sink=SINK, on_failure="skip")
    def pipeline(messages: DataFrame) -> DataFrame:
        return per_customer(messages).withColumn("total", udf(refuse)("total"))

    place(mp, 7, 1)
    catch_up(pipeline, spark)
    (letter,) = letters(mp)
    assert letter.error.startswith("ValueError: 7 is refused (test_skipping.py, line ")
    assert "in refuse" in letter.traceback


def udf(function: Callable[[int], int]) -> Callable[[str], Column]:
    """Spark takes hints of types for its own."""
    return f.udf(lambda number: function(number), "bigint")


@pytest.mark.parametrize("error", [MemoryError, ConnectionError])
def test_another_failure_skips_nothing(
    mp: Milepost, spark: SparkSession, error: type[Exception]
) -> None:
    def refuse(_: int) -> int:
        raise error("not the message's fault")

    @mp.pipeline("customers", sink=SINK, on_failure="skip")
    def pipeline(messages: DataFrame) -> DataFrame:
        return per_customer(messages).withColumn("total", udf(refuse)("total"))

    place(mp, 0, 1)
    with pytest.raises(FunctionFailed, match="not the message's fault"):
        catch_up(pipeline, spark)
    assert letters(mp) == []
    assert pipeline.position() == Position.BEGINNING


@pytest.mark.parametrize(
    "expression",
    [
        "cast('one' as bigint)",
        "id div (id - id)",
        "9223372036854775807 + id",
        "raise_error('no')",
        "element_at(array(1), 7)",
        "to_date(concat('2026-13-', id), 'yyyy-MM-dd')",
        "variant_get(parse_json(concat('[', id, ']')), '$[0]', 'date')",
        "cast(id as tinyint)",
        "map_from_arrays(array(id, id), array(1, 2))",
    ],
)
@pytest.mark.parametrize("collect", [DataFrame.toArrow, DataFrame.collect])
def test_an_expression_without_a_result_is_the_datas_failure(
    spark: SparkSession, expression: str, collect: Callable[[DataFrame], object]
) -> None:
    """As both ways of staging collect it."""
    with pytest.raises(PySparkException) as caught:
        collect(spark.range(1000, 1001, 1, 1).selectExpr(f"{expression} as n"))
    assert is_of_data(caught.value)
    assert len(cause_of(caught.value)) < 500


def test_a_query_that_spark_refuses_is_not(spark: SparkSession) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.range(1).selectExpr("nobody")
    assert not is_of_data(caught.value)


def test_a_rebuild_skips_by_itself_and_has_its_own_letters(
    mp: Milepost, spark: SparkSession
) -> None:
    place(mp, 0, 10)
    place_bad(mp, "large", "large", total=LARGE)
    place_bad(mp, "~")
    catch_up(customers(mp), spark)
    assert rebuild_of(customers(mp, is_fixed=True), spark, max_messages=8).run().version == 2
    errors = {letter.version: letter.error for letter in letters(mp)[1:]}
    assert len(letters(mp, version=1)) == 2
    assert "bigint out of range" in errors[2]
    expected = [*expected_per_customer(10), ("large", LARGE, 1), ("~", 1, 1)]
    assert rows(mp, CUSTOMERS) == expected
    with mp.connect() as conn:
        admin.drop(conn, mp.schema, "customers", 1)
    assert {letter.version for letter in letters(mp)} == {2}


def test_a_letter_is_retried_once_its_cause_is_gone(mp: Milepost, spark: SparkSession) -> None:
    place_bad(mp, "~", key="zero")
    place_bad(mp, "large", "large", total=LARGE, key="large")
    catch_up(customers(mp), spark)
    request(mp)
    place(mp, 0, 10)
    catch_up(customers(mp, is_fixed=True), spark)
    (letter,) = letters(mp)
    assert (letter.key, letter.attempts, letter.retry_requested_at) == ("large", 3, None)
    expected = [*expected_per_customer(10), ("large", LARGE, 1), ("~", 1, 1)]
    assert rows(mp, CUSTOMERS) == expected


def test_the_running_driver_retries_while_it_has_nothing_else_to_do(
    mp: Milepost, spark: SparkSession
) -> None:
    place_bad(mp, "~")
    catch_up(customers(mp), spark)
    with running(customers(mp, is_fixed=True), spark):
        request(mp)
        wait_until(lambda: letters(mp) == [])
    assert rows(mp, CUSTOMERS) == [("~", 1, 1)]


def test_a_letter_is_written_by_whoever_removes_it(mp: Milepost, spark: SparkSession) -> None:
    """And only while the version is this driver's."""
    place_bad(mp, "~")
    pipeline = customers(mp)
    catch_up(pipeline, spark)
    (letter,) = letters(mp)
    request(mp)
    one = spark.createDataFrame([("c3", 3, 1)], "customer string, total bigint, orders bigint")
    with mp.connect() as conn:
        writer = setup_of(pipeline, spark).writer(conn, "me", 7)
        stage = writer.staging_of(one, 1)
        with pytest.raises(Exception, match="fenced"):
            writer.merge_letter(letter.id, letter.at, stage())
        writer.epoch = 0
        writer.merge_letter(letter.id, letter.at, stage())
        with pytest.raises(LetterGone):
            writer.merge_letter(letter.id, letter.at, stage())
    assert rows(mp, CUSTOMERS) == [("c3", 3, 1)]


def test_a_letter_and_the_checkpoint_are_stored_together(mp: Milepost, spark: SparkSession) -> None:
    place(mp, 0, 2)
    first, second = (message.position for message in mp.read())
    pipeline = customers(mp)
    facts = {"error": "e", "traceback": "", "attempts": 2, "is_replayed": False}
    with mp.connect() as conn:
        PostgresCheckpointStore(conn).store(CheckpointKey("customers"), None, first)
        writer = setup_of(pipeline, spark).writer(conn, "me", 0)
        with pytest.raises(CompetingPipeline):
            writer.set_aside(Range(Position.BEGINNING, first), first, facts)
        assert letters(mp) == []
        writer.set_aside(Range(first, second), second, facts)
        stored = PostgresCheckpointStore(conn).load(CheckpointKey("customers"))
    assert stored is not None
    assert [letter.at for letter in letters(mp)] == [second] == [stored.position]


def test_a_message_that_only_the_archive_has(
    mp: Milepost, spark: SparkSession, archive: Archive
) -> None:
    place(mp, 0, 10)
    place_bad(mp, "~")
    place(mp, 10, 5)
    positions = [message.position for message in mp.read()]
    archive.up_to(positions[-1])
    archive.remove(positions[-1])
    catch_up(customers(mp), spark)
    (letter,) = letters(mp)
    assert (letter.at, letter.key, letter.data["total"]) == (positions[10], "bad", 1)
    assert rows(mp, CUSTOMERS) == expected_per_customer(15)
    request(mp)
    catch_up(customers(mp, is_fixed=True), spark)
    assert letters(mp) == []
    assert rows(mp, CUSTOMERS) == [*expected_per_customer(15), ("~", 1, 1)]


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_server_that_is_lost_again_and_again_skips_nothing(
    mp: Milepost, spark: SparkSession, conn: Connection
) -> None:
    """Sessions of the driver are ended while it searches for bad messages: exactly these become
    letters, and every row is counted once."""
    for first in range(0, 40, 8):
        place(mp, first, 8)
        place_bad(mp, f"~{first}")
    pipeline = customers(mp, expect={"total is small": "total < 35"}, on_violation="drop")
    ended, stop = 0, threading.Event()

    def end_sessions() -> None:
        nonlocal ended
        while ended < 12 and not stop.wait(random.uniform(0.05, 0.6)):
            ended += len(conn.execute(END_SESSIONS).fetchall())

    runner = runner_of(pipeline, spark)
    runner._backoff = Backoff(Retry(first_seconds=0.01, longest_seconds=0.1))
    thread = threading.Thread(target=end_sessions)
    thread.start()
    try:
        runner.run("caught_up")
    finally:
        stop.set()
        thread.join()
    assert ended > 3
    assert [letter.error[:21] for letter in letters(mp)] == ["invalid byte sequence"] * 5
    bad = [position for position, name in _names(mp) if name.startswith("~")]
    assert [letter.at for letter in letters(mp)] == bad
    (counted,) = rows(mp, "select passed, violated from milepost.pipeline_expectations")
    assert counted == (35, 5)
    assert rows(mp, "select sum(total), sum(orders) from customers") == [(sum(range(35)), 35)]


def _names(mp: Milepost) -> list[tuple[Position, str]]:
    return [(message.position, message.data["customer"]) for message in mp.read()]
