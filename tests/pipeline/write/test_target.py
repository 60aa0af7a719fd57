"""The table behind a pipeline's view: made, checked, taken over."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from pyspark.sql import SparkSession

from milepost import Append, Milepost, Upsert
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.errors import OtherVersionActive, PipelineError, TargetMismatch, TargetTaken
from milepost.pipeline.run.report import PipelineStatus
from milepost.pipeline.versions import lock_versions
from milepost.pipeline.write.column_types import Column
from milepost.pipeline.write.range_writer import prepare_merge
from milepost.pipeline.write.staging import Staging
from tests.pipeline.rebuilding import customers
from tests.pipeline.running import catch_up, expected_per_customer, per_customer, place, rows
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.parametrize("order", ["append"]),
    pytest.mark.usefixtures("spark_directory"),
]
SINK = Upsert("customers", key=["customer"], add=["total", "orders"])
COLUMNS = [Column("customer", "text"), Column("total", "bigint"), Column("orders", "bigint")]
WAITING = """
select 1 from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock' and query ~ 'milepost'
"""


def make_target(conn: Connection) -> None:
    prepare_merge(conn, CheckpointKey("customers", 1), SINK, COLUMNS, "milepost")


def make_staging(columns: list[Column], conn: Connection) -> None:
    Staging("", "milepost", "staging_customers").create(conn, columns)


def execute(mp: Milepost, statement: str) -> None:
    with mp.connect() as conn:
        conn.execute(statement.encode())


def test_the_name_is_a_view_over_the_versions_table(mp: Milepost, spark: SparkSession) -> None:
    place(mp, 0, 20)
    catch_up(mp.pipeline("customers", sink=SINK)(per_customer), spark)
    found = "select customer, total, orders from {} order by customer"
    assert rows(mp, found.format("customers")) == expected_per_customer(20)
    assert rows(mp, found.format("customers__v1")) == expected_per_customer(20)
    assert rows(mp, "select relkind::text from pg_class where relname = 'customers'") == [("v",)]
    assert rows(mp, "select version, is_active from milepost.pipelines") == [(1, True)]


def at_once(
    mp: Milepost, first: Callable[[Connection], None], second: Callable[[Connection], None]
) -> None:
    """The second begins while the first has not committed, and ends without an error."""

    def later() -> None:
        with mp.connect() as conn:
            second(conn)

    with ThreadPoolExecutor(1) as threads, mp.connect() as conn:
        with conn.transaction():
            first(conn)
            outcome = threads.submit(later)
            wait_until(lambda: rows(mp, WAITING))
        outcome.result(60)


def test_of_two_drivers_that_begin_at_once_one_makes_the_target(mp: Milepost) -> None:
    execute(
        mp,
        "insert into milepost.pipelines (name, version, code_version, sink, is_active)"
        " values ('customers', 1, 1, 'Upsert', true)",
    )
    at_once(mp, make_target, make_target)
    assert rows(mp, "select * from customers") == []


def test_of_two_versions_that_begin_at_once_one_is_active(
    mp: Milepost, spark: SparkSession
) -> None:
    def first(conn: Connection) -> None:
        lock_versions(conn, "customers", "milepost")
        options = customers(mp).definition.options
        PipelineStatus(owner="first", schema="milepost", options=options).register(conn)

    def second(_: Connection) -> None:
        catch_up(customers(mp, version=2), spark)

    with pytest.raises(OtherVersionActive, match="Version 2 is not built yet"):
        at_once(mp, first, second)
    assert rows(mp, "select version, is_active from milepost.pipelines") == [(1, True)]


@pytest.mark.parametrize("first", [COLUMNS, COLUMNS[:2]], ids=["same", "of-other-columns"])
def test_of_two_drivers_that_begin_at_once_one_makes_the_staging(
    mp: Milepost, first: list[Column]
) -> None:
    at_once(mp, partial(make_staging, first), partial(make_staging, COLUMNS))
    staged = "select _attempt, customer, total, orders from milepost.staging_customers"
    assert rows(mp, staged) == []


@pytest.mark.parametrize(
    ("columns", "column", "wanted", "found"),
    [
        ("customer text primary key, total text, orders bigint", "total", "bigint", "text"),
        ("customer text primary key, total bigint, sum bigint", "sum", None, "bigint"),
        (
            "customer text primary key, total bigint, orders bigint, region text not null",
            "region",
            None,
            "text not null",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused_by_its_column(
    mp: Milepost,
    spark: SparkSession,
    columns: str,
    column: str,
    wanted: str | None,
    found: str | None,
) -> None:
    execute(mp, f"create table customers__v1 ({columns})")
    place(mp, 0, 5)
    with pytest.raises(TargetMismatch) as caught:
        catch_up(mp.pipeline("customers", sink=SINK)(per_customer), spark)
    assert (caught.value.column, caught.value.wanted, caught.value.found) == (column, wanted, found)
    assert rows(mp, "select count(*) from customers__v1") == [(0,)]
    assert rows(mp, "select count(*) from pg_class where relname like 'staging%'") == [(0,)]


def test_a_table_without_the_key_is_refused(mp: Milepost, spark: SparkSession) -> None:
    execute(mp, "create table customers__v1 (customer text, total bigint, orders bigint)")
    place(mp, 0, 5)
    with pytest.raises(PipelineError, match=r"no unique index on \(customer\)"):
        catch_up(mp.pipeline("customers", sink=SINK)(per_customer), spark)


def test_a_table_that_fits_is_taken_over(mp: Milepost, spark: SparkSession) -> None:
    execute(mp, "create schema sales")
    execute(
        mp,
        "create table sales.customers__v1 (id bigint generated always as identity, orders bigint,"
        " total bigint, customer text unique)",
    )
    place(mp, 0, 20)
    sink = Upsert("sales.customers", key=["customer"], add=["total", "orders"])
    catch_up(mp.pipeline("customers", sink=sink)(per_customer), spark)
    found = rows(mp, "select customer, total, orders from sales.customers order by customer")
    assert found == expected_per_customer(20)


def test_a_name_that_is_a_table_is_refused(mp: Milepost, spark: SparkSession) -> None:
    execute(mp, "create table customers (customer text)")
    place(mp, 0, 5)
    with pytest.raises(TargetTaken, match=r"public\.customers is a table.*customers__v1"):
        catch_up(mp.pipeline("customers", sink=SINK)(per_customer), spark)


def test_a_schema_that_is_not_there_is_named(mp: Milepost, spark: SparkSession) -> None:
    place(mp, 0, 5)
    with pytest.raises(PipelineError, match="no schema 'nowhere'"):
        catch_up(mp.pipeline("customers", sink=Append("nowhere.t"))(per_customer), spark)
