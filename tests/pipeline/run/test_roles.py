"""Pipelines and reads of the log by Spark, each under a role that may do nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Append, Milepost, RecordedMessage, ToLog, ToQueue, Upsert
from milepost.db import Connection
from milepost.errors import NotPermitted
from milepost.pipeline import admin
from milepost.processors.set_aside import dead_letters
from tests.pipeline.engine.spark_runner import spark_runner
from tests.pipeline.rebuilding import rebuild_of
from tests.pipeline.running import (
    catch_up,
    expected_per_customer,
    follow,
    parsed,
    per_customer,
    place,
    rows,
)
from tests.pipeline.sourcing import table
from tests.roles import Roles, role_of, roles_in

pytestmark = pytest.mark.usefixtures("spark_directory")
append_order = pytest.mark.parametrize("order", ["append"])
CUSTOMERS = "select customer, total, orders from reports.customers order by customer"
NUL = """select milepost.append('OrderPlaced', '{"customer": "\\u0000", "total": 1}'::json)"""
SINK = Upsert("reports.customers", key=["customer"], add=["total", "orders"])


@pytest.fixture
def roles(url: str, conn: Connection) -> Iterator[Roles]:
    conn.execute("create schema reports")
    with roles_in(url) as made:
        yield made


@pytest.fixture
def url_of_pipeline(roles: Roles) -> str:
    url = roles.make("pipeline")
    roles.run("grant usage, create on schema reports to {}", url)
    return url


def test_a_pipeline_runs_and_is_rebuilt_rolled_back_and_dropped(
    url_of_pipeline: str, mp: Milepost, spark: SparkSession
) -> None:
    application = Milepost(url_of_pipeline)
    pipeline = application.pipeline("customers", sink=SINK, max_messages_per_batch=30)(per_customer)
    place(mp, 0, 70)
    catch_up(pipeline, spark)
    place(mp, 70, 20)
    follow(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(90)
    assert rebuild_of(pipeline, spark).run().version == 2
    place(mp, 90, 10)
    catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(100)
    with application.connect() as conn:
        assert admin.roll_back(conn, "milepost", "customers") == (2, 1)
        admin.drop(conn, "milepost", "customers", 2)


@append_order
def test_a_pipeline_into_the_log_and_the_queue_has_those_activities_too(
    roles: Roles, mp: Milepost, spark: SparkSession
) -> None:
    url = roles.make("pipeline", "append", "put")
    roles.run("grant usage, create on schema reports to {}", url)
    application = Milepost(url)

    def out(messages: DataFrame) -> DataFrame:
        return messages.select(f.lit("Out").alias("type"), "data", "key")

    def jobs(messages: DataFrame) -> DataFrame:
        return messages.select(f.col("data").alias("content"))

    place(mp, 0, 20)
    for pipeline in (
        application.pipeline("log", topics=["orders"], sink=ToLog("out"))(out),
        application.pipeline("queue", topics=["orders"], sink=ToQueue("jobs"))(jobs),
        application.pipeline("table", topics=["orders"], sink=Append("reports.orders"))(parsed),
    ):
        catch_up(pipeline, spark)
    assert rows(mp, "select count(*) from milepost.messages where topic = 'out'") == [(20,)]
    assert rows(mp, "select count(*) from milepost.jobs where channel = 'jobs'") == [(20,)]
    assert rows(mp, "select count(*) from reports.orders") == [(20,)]


@append_order
def test_a_pipeline_sets_messages_and_rows_aside(
    url_of_pipeline: str, roles: Roles, mp: Milepost, spark: SparkSession
) -> None:
    application = Milepost(url_of_pipeline)
    pipeline = application.pipeline(
        "orders",
        sink=Append("reports.orders"),
        on_failure="skip",
        expect={"total is small": "total < 19"},
        on_violation="set_aside",
    )(parsed)
    place(mp, 0, 20)
    with mp.connect() as conn:
        conn.execute(NUL)  # Python refuses to append it
    catch_up(pipeline, spark)
    operator = Milepost(roles.make("operate"))
    with operator.connect() as conn:
        (letter,) = dead_letters.list_dead_letters(conn, "milepost", "orders")
        dead_letters.request_retry(conn, "milepost", [letter.id])
    catch_up(pipeline, spark)
    with operator.connect() as conn:
        (letter,) = dead_letters.list_dead_letters(conn, "milepost", "orders")
    assert letter.attempts == 3
    assert rows(mp, "select data ->> 'total' from reports.orders__rejected") == [("19",)]
    with Milepost(roles.make("metrics")).connect() as conn:
        (status,) = admin.list_pipelines(conn, "milepost")
    assert (status.dead_letters, status.expectations) == (
        1,
        [{"name": "total is small", "passed": 19, "violated": 1}],
    )
    assert rebuild_of(pipeline, spark).run().version == 2
    with application.connect() as conn:
        admin.drop(conn, "milepost", "orders", 1)


@append_order
def test_a_pipeline_without_a_privilege_names_the_command(
    roles: Roles, mp: Milepost, spark: SparkSession
) -> None:
    url = roles.make()
    pipeline = Milepost(url).pipeline("customers", sink=SINK)(per_customer)
    place(mp, 0, 10)
    command = f"milepost grant {role_of(url)} --to pipeline --apply"
    with pytest.raises(NotPermitted, match=f"schema milepost.*{command}"):
        catch_up(pipeline, spark)
    mp.grant(role_of(url), "pipeline")
    of_target = "grant usage, create on schema TARGET_SCHEMA to ROLE"
    with pytest.raises(NotPermitted, match=f"denied for schema reports.*{of_target}"):
        catch_up(pipeline, spark)


def test_a_spark_job_reads_the_log(roles: Roles, mp: Milepost, spark: SparkSession) -> None:
    place(mp, 0, 50)
    assert table(spark, roles.make("read")).count() == 50
    url = roles.make()
    with pytest.raises(PySparkException, match=f"milepost grant {role_of(url)} --to read --apply"):
        table(spark, url).count()


@append_order
def test_a_processor_on_spark_processes(
    roles: Roles, mp: Milepost, spark: SparkSession, conn: Connection
) -> None:
    conn.execute("create table seen (key text)")
    url = roles.make("process")
    roles.run("grant insert on seen to {}", url)
    application = Milepost(url)

    @application.processor("cut", segments=2, engine="spark")
    def cut(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            tx.execute("insert into seen (key) values (%s)", [message.key])

    place(mp, 0, 30)
    spark_runner(cut, spark).run("caught_up")
    assert conn.execute("select count(*) from seen").fetchone() == (30,)
