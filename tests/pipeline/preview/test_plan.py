"""What the next run would read and change."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from milepost import Milepost, Position, ToLog
from milepost.db import Connection
from milepost.pipeline.preview import plan
from tests.pipeline.archived import Archive
from tests.pipeline.preview.test_preview import next_transaction
from tests.pipeline.rebuilding import customers, customers_with_twice
from tests.pipeline.running import catch_up, per_customer, place, setup_of

pytestmark = [
    pytest.mark.parametrize("order", ["append"]),
    pytest.mark.usefixtures("spark_directory"),
]
COLUMNS = {"customer": "text", "total": "bigint", "orders": "bigint"}


def test_of_a_first_run_everything_is_new(
    mp: Milepost, conn: Connection, spark: SparkSession, archive: Archive
) -> None:
    place(mp, 0, 100)
    archive.up_to(Position(0, 70))
    archive.remove(Position(0, 50))
    before = next_transaction(conn)
    found = plan(setup_of(customers(mp), spark))
    assert next_transaction(conn) == before
    assert (found.after, found.horizon) == (Position.BEGINNING, Position(0, 100))
    assert (found.archived, found.in_table, found.batches) == (70, 30, 4)
    assert (found.target, found.table, found.shown) == (
        "public.customers",
        "public.customers__v1",
        None,
    )
    assert (found.columns_now, found.columns_after) == ({}, COLUMNS)
    assert found.changes == (
        "registers version 1",
        "creates the table public.customers__v1 (customer text, total bigint, orders bigint)",
        "creates the view public.customers of public.customers__v1",
    )
    assert (found.refused, found.needs_rebuild, found.active_version) == (None, False, None)


def test_after_a_run_only_what_was_appended_is_left(mp: Milepost, spark: SparkSession) -> None:
    place(mp, 0, 60)
    pipeline = customers(mp)
    catch_up(pipeline, spark)
    place(mp, 60, 10)
    found = plan(setup_of(pipeline, spark))
    assert (found.after, found.archived, found.in_table) == (Position(0, 60), 0, 10)
    assert (found.columns_now, found.columns_after) == (COLUMNS, COLUMNS)
    assert (found.changes, found.refused, found.shown) == ((), None, "customers__v1")

    evolved = plan(setup_of(customers_with_twice(mp, version=1), spark))
    assert evolved.changes == ("adds the column twice bigint to public.customers__v1",)
    assert (evolved.columns_after, evolved.refused) == ({**COLUMNS, "twice": "bigint"}, None)

    newer = plan(setup_of(customers_with_twice(mp, version=2), spark))
    assert (newer.version, newer.active_version, newer.needs_rebuild) == (2, 1, True)
    assert (newer.after, newer.in_table) == (Position.BEGINNING, 70)
    assert "milepost pipelines rebuild customers" in str(newer.refused)
    assert newer.table == "public.customers__v2"


def test_columns_that_do_not_fit_are_said(
    mp: Milepost, conn: Connection, spark: SparkSession
) -> None:
    conn.execute("create table customers__v1 (customer text, total bigint, orders text)")
    found = plan(setup_of(customers(mp), spark))
    assert found.columns_now["orders"] == "text"
    assert "column 'orders' is bigint in its output and text in the table" in str(found.refused)
    assert found.changes == ()


def test_without_a_table_there_is_no_target(mp: Milepost, spark: SparkSession) -> None:
    found = plan(setup_of(mp.pipeline("echo", sink=ToLog("echoes"))(per_customer), spark))
    assert (found.target, found.columns_now) == (None, {})
    assert "'type' of its output is missing" in str(found.refused)


def test_code_that_raises_is_said(mp: Milepost, spark: SparkSession) -> None:
    @mp.pipeline("raising", sink=ToLog("echoes"))
    def raising(messages: DataFrame) -> DataFrame:
        raise ValueError("a bad day")

    found = plan(setup_of(raising, spark))
    assert found.refused == "Pipeline 'raising': its function raised ValueError: a bad day"
