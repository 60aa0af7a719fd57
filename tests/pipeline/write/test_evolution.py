"""A target follows its output: new columns and wider types, while others read and write it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Thread

import pytest
from pyspark.sql import SparkSession

from milepost import Append, Milepost, Upsert
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.errors import TargetMismatch, TargetNotChanged
from milepost.pipeline.sinks import TableName, TableSink
from milepost.pipeline.write.column_types import Column
from milepost.pipeline.write.range_writer import prepare_merge
from milepost.pipeline.write.target import Target, find_target
from tests.pipeline.running import rows
from tests.pipeline.writing import activate, frame, next_range, write, writing
from tests.roles import Roles, role_of, roles_in
from tests.waiting import wait_until

pytestmark = pytest.mark.parametrize("order", ["append"])
SINK = Upsert("counts", key=["id"])
KEY = CheckpointKey("written", 1)
ID, COUNT = Column("id", "bigint"), Column("n", "integer")
WIDE, NEW = Column("n", "bigint"), Column("new", "text")
COLUMNS = """
select attname || ' ' || format_type(atttypid, atttypmod) from pg_attribute
where attrelid = '{}'::regclass and attnum > 0 and not attisdropped order by attnum
"""
WAITING = """
select from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock' and query ~ 'evolve_target'
"""


def prepare(conn: Connection, *columns: Column, sink: TableSink = SINK) -> None:
    prepare_merge(conn, KEY, sink, columns, "milepost")


def target(conn: Connection, most_tries: int = 1) -> Target:
    found = find_target(conn, KEY, TableName(None, "counts"), "milepost")
    return replace(found, most_tries=most_tries, let_pass_seconds=0)


def columns(mp: Milepost, name: str) -> list[object]:
    return [text for (text,) in rows(mp, COLUMNS.format(name))]


@pytest.fixture
def conn(conn: Connection) -> Connection:
    """With a target of two columns, which its view shows."""
    activate(conn)
    prepare(conn, ID, COUNT)
    conn.execute("insert into counts__v1 values (1, 10)")
    return conn


@pytest.fixture
def roles(url: str, conn: Connection) -> Iterator[Roles]:  # the target is there
    with roles_in(url) as made:
        yield made


def test_a_new_column_is_added_to_the_table_and_the_view(mp: Milepost, conn: Connection) -> None:
    prepare(conn, ID, COUNT, NEW)
    for name in ("counts__v1", "counts"):
        assert columns(mp, name) == ["id bigint", "n integer", "new text"]
    assert rows(mp, "select * from counts") == [(1, 10, None)]


def test_a_type_is_widened_in_the_table_and_the_view(mp: Milepost, conn: Connection) -> None:
    prepare(conn, ID, NEW, WIDE)
    for name in ("counts__v1", "counts"):
        assert columns(mp, name) == ["id bigint", "n bigint", "new text"]
    assert rows(mp, "select * from counts") == [(1, 10, None)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("smallint", "bigint"),
        ("real", "double precision"),
        ("numeric(10,2)", "numeric(14,4)"),
        ("character varying(9)", "text"),
    ],
)
def test_the_server_widens_what_the_table_of_types_allows(
    mp: Milepost, conn: Connection, before: str, after: str
) -> None:
    conn.execute("drop view counts")
    conn.execute(f"alter table counts__v1 alter n type {before}".encode())
    prepare(conn, ID, Column("n", after))
    assert columns(mp, "counts") == ["id bigint", f"n {after}"]
    assert rows(mp, "select n::int from counts") == [(10,)]


@pytest.mark.parametrize("changed", [[ID, COUNT, NEW], [ID, WIDE]], ids=["new", "wider"])
def test_the_view_keeps_its_privileges_and_options(
    mp: Milepost, conn: Connection, roles: Roles, changed: list[Column]
) -> None:
    reader, counter = roles.make(), roles.make()
    roles.run("grant select on counts to {} with grant option", reader)
    roles.run("grant select (n) on counts to {}", counter)
    conn.execute("alter view counts set (security_barrier = true)")
    prepare(conn, *changed)
    found = rows(
        mp,
        "select relacl::text, reloptions, (select attacl::text from pg_attribute "
        "where attrelid = c.oid and attname = 'n') from pg_class as c where relname = 'counts'",
    )
    [(acl, options, of_column)] = found
    assert f"{role_of(reader)}=r*/" in str(acl)
    assert f"{role_of(counter)}=r/" in str(of_column)
    assert options == ["security_barrier=true"]


@pytest.mark.parametrize(
    ("changed", "column"),
    [
        ([ID, Column("n", "text")], "n"),
        ([ID, Column("count", "integer")], "n"),
        ([Column("id", "text"), COUNT], "id"),
    ],
)
def test_everything_else_asks_for_a_rebuild(
    mp: Milepost, conn: Connection, changed: list[Column], column: str
) -> None:
    with pytest.raises(TargetMismatch, match="a rebuild fills it") as refused:
        prepare(conn, *changed)
    assert refused.value.column == column
    assert columns(mp, "counts") == ["id bigint", "n integer"]


def test_a_new_name_for_a_column_is_said_to_be_one(conn: Connection) -> None:
    with pytest.raises(TargetMismatch, match="If 'count' is its new name"):
        prepare(conn, ID, Column("count", "integer"))


def test_a_new_column_of_the_key_asks_for_a_rebuild(conn: Connection) -> None:
    sink = Upsert("counts", key=["id", "new"])
    with pytest.raises(TargetMismatch) as refused:
        prepare(conn, ID, COUNT, NEW, sink=sink)
    assert refused.value.column == "new"


def test_a_view_that_depends_on_the_target_does_not_hinder_a_new_column(
    mp: Milepost, conn: Connection
) -> None:
    conn.execute("create view mine as select n from counts")
    prepare(conn, ID, COUNT, NEW)
    assert columns(mp, "counts") == ["id bigint", "n integer", "new text"]
    with pytest.raises(TargetNotChanged, match=r"bigint for 'n'.*view mine depends") as refused:
        prepare(conn, ID, WIDE, NEW)
    assert refused.value.table == "public.counts__v1"
    assert rows(mp, "select n from mine") == [(10,)]


def test_a_role_that_does_not_own_the_table_is_told_so(conn: Connection, roles: Roles) -> None:
    url = roles.make("process", "pipeline")
    roles.run("grant usage, create on schema public to {}", url)
    with (
        Milepost(url).connect() as other,
        pytest.raises(TargetNotChanged, match="may not change it"),
    ):
        prepare(other, ID, COUNT, NEW)


def test_a_reader_that_does_not_end_is_not_waited_for_for_ever(
    mp: Milepost, conn: Connection
) -> None:
    with mp.connect() as reader, reader.transaction():
        reader.execute("select from counts")
        with pytest.raises(TargetNotChanged, match="does not end"):
            target(conn).prepare([ID, COUNT, NEW], ["id"])
        assert columns(mp, "counts") == ["id bigint", "n integer"]


def test_readers_that_come_later_pass_while_it_waits(mp: Milepost, conn: Connection) -> None:
    """The lock is given up after two seconds, and asked for again when they have read."""
    change = Thread(target=target(conn, most_tries=30).prepare, args=([ID, COUNT, NEW], ["id"]))
    with mp.connect() as reader, reader.transaction(), mp.connect() as later:
        reader.execute("select from counts")
        change.start()
        wait_until(lambda: rows(mp, WAITING))
        later.execute("set statement_timeout = '20s'")
        assert later.execute("select n from counts").fetchall() == [(10,)]
    change.join(30)
    assert columns(mp, "counts") == ["id bigint", "n integer", "new text"]


def test_a_reader_that_comes_meanwhile_does_not_deadlock_with_the_change(
    mp: Milepost, conn: Connection
) -> None:
    """A reader locks the view, then the table. If the change locked the table first, it would wait
    for this reader when it replaces the view."""
    conn.execute(
        "create function wait_here() returns event_trigger language plpgsql set lock_timeout = 0 as"
        " 'begin perform pg_advisory_xact_lock_shared(1); end'"
    )
    conn.execute(
        "create event trigger wait_here on ddl_command_end when tag in ('ALTER TABLE')"
        " execute function wait_here()"
    )
    with ThreadPoolExecutor(2) as threads:
        with mp.connect() as gate, gate.transaction():
            gate.execute("select pg_advisory_xact_lock(1)")
            change = threads.submit(target(conn).prepare, [ID, COUNT, NEW], ["id"])
            wait_until(lambda: rows(mp, WAITING))
            reading = threads.submit(rows, mp, "select n from counts")
            wait_until(lambda: rows(mp, WAITING.replace("evolve_target", "^select n from counts")))
        change.result(30)
        assert reading.result(30) == [(10,)]


def test_the_table_of_another_version_leaves_the_view_alone(mp: Milepost, conn: Connection) -> None:
    conn.execute("create table counts__v2 (id bigint primary key, n integer)")
    prepare_merge(conn, CheckpointKey("written", 2), SINK, [ID, WIDE, NEW], "milepost")
    assert columns(mp, "counts__v2") == ["id bigint", "n bigint", "new text"]
    assert columns(mp, "counts") == ["id bigint", "n integer"]


@pytest.mark.usefixtures("spark_directory")
def test_a_driver_of_before_the_change_goes_on(mp: Milepost, spark: SparkSession) -> None:
    """What it has staged is merged into the changed table. When it starts again, that still fits;
    and the table is not changed back."""
    old, new = "id bigint, n int", "id bigint, n bigint, m int"
    sink, newer = Upsert("sums", key=["id"], add=["n"]), Upsert("sums", key=["id"], add=["n", "m"])
    with writing(mp, sink) as before, writing(mp, newer) as after, writing(mp, sink) as again:
        write(before, frame(spark, old, (1, 1), (2, 1)))
        staged = before.staging_of(frame(spark, old, (1, 1), (4, 1)), 2)()
        after.prepare(frame(spark, new))
        before.merge(next_range(before), staged)
        write(after, frame(spark, new, (1, 2**40, 7), (3, 1, 7)))
        write(again, frame(spark, old, (1, 1), (4, 1)))
    assert rows(mp, "select * from sums order by id") == [
        (1, 2**40 + 3, 7), (2, 1, None), (3, 1, 7), (4, 2, None)
    ]  # fmt: skip


@pytest.mark.usefixtures("spark_directory")
def test_the_output_of_one_driver_may_change_between_batches(
    mp: Milepost, spark: SparkSession
) -> None:
    """As that of a pivot does. Staging follows."""
    with writing(mp, Append("pivoted")) as writer:
        write(writer, frame(spark, "day int, a int", (1, 1)))
        write(writer, frame(spark, "day int, a int, b int", (2, 1, 2)))
        write(writer, frame(spark, "day int, a bigint", (3, 3)))
    assert rows(mp, "select * from pivoted order by day") == [(1, 1, None), (2, 1, 2), (3, 3, None)]
