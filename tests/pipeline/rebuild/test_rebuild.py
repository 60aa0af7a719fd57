"""Filling a new version from the log, and letting the target show it."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Append, Files, Milepost, Position, ToLog, Upsert
from milepost.errors import CannotRebuild, OtherVersionActive, VersionInUse
from milepost.pipeline import admin
from milepost.pipeline.rebuild.swap import Progress
from tests.pipeline.rebuilding import (
    CUSTOMERS,
    active_version,
    customers,
    customers_with_twice,
    rebuild_of,
    tables,
)
from tests.pipeline.running import (
    catch_up,
    expected_per_customer,
    parsed,
    per_customer,
    place,
    rows,
)

pytestmark = pytest.mark.usefixtures("spark_directory")
append_order = pytest.mark.parametrize("order", ["append"])


def test_a_rebuild_fills_a_new_table_and_the_target_shows_it(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = customers(mp)
    place(mp, 0, 70)
    catch_up(pipeline, spark)
    place(mp, 70, 200)  # the old version has not come so far: the new one may be ahead of it
    rebuilt = rebuild_of(pipeline, spark).run()
    assert (rebuilt.version, rebuilt.replaced, rebuilt.rows) == (2, 1, 270)
    assert rebuilt.position == pipeline.position()
    assert rows(mp, CUSTOMERS) == expected_per_customer(270)
    assert tables(mp) == ["customers__v1", "customers__v2"]


@append_order
def test_the_same_code_goes_on_with_the_new_version(mp: Milepost, spark: SparkSession) -> None:
    pipeline = customers(mp)
    place(mp, 0, 40)
    catch_up(pipeline, spark)
    rebuild_of(pipeline, spark, to_version=7, drop=True).run()
    place(mp, 40, 30)
    catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(70)
    assert (active_version(mp), tables(mp)) == (7, ["customers__v7"])
    left = rows(mp, "select processor, version from milepost.checkpoints")
    assert left == [("customers", 7)]


@append_order
def test_new_code_waits_for_its_rebuild_and_old_code_for_a_rollback(
    mp: Milepost, spark: SparkSession
) -> None:
    place(mp, 0, 40)
    catch_up(customers(mp), spark)
    new = customers_with_twice(mp)
    with pytest.raises(OtherVersionActive, match=r"Version 2 is not built yet.*rebuild customers"):
        catch_up(new, spark)
    rebuild_of(new, spark).run()
    assert sum(int(str(twice)) for (twice,) in rows(mp, "select twice from customers")) == 2 * 780
    old = customers(mp)
    with pytest.raises(OtherVersionActive, match="rollback customers --to-version 1") as refused:
        catch_up(old, spark)
    assert (refused.value.active, refused.value.active_code_version) == (2, 2)

    place(mp, 40, 10)
    with mp.connect() as conn:
        assert admin.roll_back(conn, "milepost", "customers") == (2, 1)
    assert rows(mp, CUSTOMERS) == expected_per_customer(40)
    catch_up(old, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(50)
    with pytest.raises(OtherVersionActive, match="rollback customers --to-version 2"):
        catch_up(new, spark)


@append_order
def test_grants_on_the_target_outlive_a_swap_to_other_columns(
    mp: Milepost, spark: SparkSession
) -> None:
    place(mp, 0, 10)
    catch_up(customers(mp), spark)
    with mp.connect() as conn:
        conn.execute("grant select on customers to public")
    rebuild_of(customers_with_twice(mp), spark).run()
    with mp.connect() as conn:
        admin.roll_back(conn, "milepost", "customers")  # fewer columns: made anew
    found = rows(
        mp,
        "select grantee, privilege_type from information_schema.role_table_grants "
        "where table_name = 'customers' and grantee = 'PUBLIC'",
    )
    assert found == [("PUBLIC", "SELECT")]


@append_order
def test_a_pipeline_that_never_ran_can_be_built_by_a_rebuild(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = customers(mp, version=3)
    place(mp, 0, 20)
    rebuilt = rebuild_of(pipeline, spark).run()
    assert (rebuilt.version, rebuilt.replaced) == (3, None)
    place(mp, 20, 20)
    catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(40)


@append_order
def test_a_rebuild_of_an_empty_log_makes_an_empty_table(mp: Milepost, spark: SparkSession) -> None:
    pipeline = customers(mp)
    catch_up(pipeline, spark)
    assert rebuild_of(pipeline, spark).run().position == Position.BEGINNING
    assert rows(mp, CUSTOMERS) == []
    place(mp, 0, 20)
    catch_up(pipeline, spark)
    assert rows(mp, CUSTOMERS) == expected_per_customer(20)


@append_order
def test_append_targets_are_rebuilt_too_and_progress_is_told(
    mp: Milepost, spark: SparkSession
) -> None:
    @mp.pipeline("seen", topics=["orders"], sink=Append("seen"))
    def seen(messages: DataFrame) -> DataFrame:
        return messages.select("position")

    place(mp, 0, 120)
    place(mp, 0, 30, topic="visits")
    catch_up(seen, spark)
    told: list[Progress] = []
    rebuild_of(seen, spark, seen=told).run()
    positions = rows(mp, "select position from seen order by position")
    assert positions == [(n,) for n in range(1, 121)]
    assert {p.phase for p in told} == {"filling", "catching up", "swapping"}
    dones = [p.done for p in told]
    assert dones == sorted(dones)
    assert told[-1].done == told[-1].total == 150
    assert any(0 < p.done < p.total for p in told)


@pytest.mark.soak  # three streams with state
@append_order
def test_a_stateful_pipeline_is_rebuilt_by_its_own_stream(
    mp: Milepost, spark: SparkSession
) -> None:
    @mp.pipeline(
        "totals",
        sink=Upsert("totals", key=["customer"], set=["total"]),
        stateful=True,
        max_messages_per_batch=30,
    )
    def totals(messages: DataFrame) -> DataFrame:
        return parsed(messages).groupBy("customer").agg(f.sum("total").alias("total"))

    def expected(count: int) -> list[tuple[object, ...]]:
        return [(name, total) for name, total, _ in expected_per_customer(count)]

    query = "select customer, total from totals order by customer"
    place(mp, 0, 20)
    catch_up(totals, spark)
    place(mp, 20, 20)
    told: list[Progress] = []
    rebuilt = rebuild_of(totals, spark, seen=told).run()
    assert (rebuilt.version, rebuilt.replaced) == (2, 1)
    assert rows(mp, query) == expected(40)
    assert told[-1].done == told[-1].total == 40
    place(mp, 40, 10)
    catch_up(totals, spark)
    assert rows(mp, query) == expected(50)


@append_order
def test_what_cannot_be_filled_anew_is_refused_with_the_reason(
    mp: Milepost, spark: SparkSession
) -> None:
    to_log = mp.pipeline("echo", sink=ToLog("echoes"))(per_customer)
    files = mp.pipeline("files", sink=Files("/nowhere"))(per_customer)
    at_end = mp.pipeline("late", sink=Append("late"), start_from="end")(per_customer)
    for pipeline, reason in (
        (to_log, "append its messages a second time"),
        (files, "files have no view"),
        (at_end, "start_from is 'end'"),
    ):
        with pytest.raises(CannotRebuild, match=reason):
            rebuild_of(pipeline, spark).run()
    assert rows(mp, "select name from milepost.pipelines") == []


@append_order
def test_versions_in_use_and_strange_tables_are_not_touched(
    mp: Milepost, spark: SparkSession
) -> None:
    pipeline = customers(mp)
    place(mp, 0, 10)
    catch_up(pipeline, spark)
    with pytest.raises(VersionInUse, match="version 1 is the active one"):
        rebuild_of(pipeline, spark, to_version=1).run()
    with mp.connect() as conn:
        conn.execute("create table customers__v2 (precious text)")
    with pytest.raises(CannotRebuild, match=r"public\.customers__v2 already"):
        rebuild_of(pipeline, spark).run()
    rebuild_of(pipeline, spark, to_version=3).run()
    with pytest.raises(VersionInUse, match="version 1 is kept from earlier: drop it"):
        rebuild_of(pipeline, spark, to_version=1).run()
    with mp.connect() as conn:
        with pytest.raises(VersionInUse, match="version 3 is the active one"):
            admin.drop(conn, "milepost", "customers", 3)
        admin.drop(conn, "milepost", "customers", 1)
    assert tables(mp) == ["customers__v2", "customers__v3"]
    staging = rows(mp, "select count(*) from pg_class where relname like 'staging_customers%'")
    assert staging == [(1,)]
