"""Migrations: applied once whoever runs them, whole or not at all, and never silently skipped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql as pgsql

from milepost import Message, Milepost, append, db, log, migrate, sql
from milepost.db import Connection
from milepost.errors import (
    ForeignMigration,
    InvalidSchemaName,
    NotMigrated,
    OrderIsFixed,
    SchemaTooNew,
    ServerTooOld,
)
from milepost.migrate import Step
from milepost.sql import LogOrder, Migration

KNOWN = [(m.number, m.name) for m in sql.migrations()]
LAST = KNOWN[-1][0]


@pytest.fixture
def empty(empty_database: str) -> Iterator[Connection]:
    with db.connect(empty_database) as conn:
        yield conn


def applied(conn: Connection, schema: str = "milepost") -> list[tuple[int, str]]:
    return conn.execute(
        f"select number, name from {schema}.migrations order by number"  # noqa: S608
    ).fetchall()


def names(steps: list[Step]) -> list[str]:
    return [step.name for step in steps]


def test_every_migration_is_applied_once_and_recorded(empty: Connection, order: LogOrder) -> None:
    first = migrate.migrate(empty, order=order)
    assert names(first) == [f"{number:04}_{name}" for number, name in KNOWN]
    assert applied(empty) == KNOWN
    assert migrate.migrate(empty) == []
    assert migrate.migrate(empty, order=order) == []


def test_the_numbers_of_the_migrations_have_no_gap() -> None:
    assert [number for number, _ in KNOWN] == list(range(1, LAST + 1))


def test_functions_are_taken_away_only_in_the_step_that_creates_the_new_ones() -> None:
    """That is the last one. Between two steps, code that runs meanwhile would find neither."""
    newer = (m for m in sql.migrations() if m.number > sql.OLDEST_CODE)
    assert not {m.number for m in newer if "drop function" in m.text} - {LAST}


def test_append_order_is_the_default(empty: Connection) -> None:
    migrate.migrate(empty)
    assert empty.execute("select log_order from milepost.log").fetchall() == [("append",)]


def test_a_server_that_is_too_old_is_refused_before_anything_is_written(
    empty: Connection, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No such server is at hand in every run, so what is too old is raised above this one."""
    monkeypatch.setattr(db, "OLDEST_POSTGRES", 99)
    mp = Milepost(empty_database)
    for attempt in (mp.migrate, mp.pending_migrations):
        with pytest.raises(
            ServerTooOld, match=r"is PostgreSQL \d\d\.\d+, and .* needs 99"
        ) as caught:
            attempt()
        major, minor = divmod(empty.info.server_version, 10_000)
        assert (caught.value.found, caught.value.needed) == (f"{major}.{minor}", 99)
    assert db.applied_number(empty, "milepost") is None


def test_ten_processes_may_migrate_at_once(empty_database: str, empty: Connection) -> None:
    start = threading.Barrier(10)

    def migrating() -> list[Step]:
        mp = Milepost(empty_database)
        start.wait()
        return mp.migrate()

    with ThreadPoolExecutor(10) as pool:
        found = [future.result() for future in [pool.submit(migrating) for _ in range(10)]]
    steps = [name for steps in found for name in names(steps)]
    assert sorted(steps) == [f"{number:04}_{name}" for number, name in KNOWN]
    assert applied(empty) == KNOWN


@pytest.mark.parametrize("schema", ["milepost", "other_log"])
def test_a_database_that_is_not_migrated_is_refused_with_the_command(
    empty_database: str, empty: Connection, schema: str
) -> None:
    mp = Milepost(empty_database, schema=schema)
    command = "milepost migrate" + ("" if schema == "milepost" else " --schema other_log")
    with pytest.raises(NotMigrated, match=f"Run: {command}$"), mp.connect():
        pass
    with pytest.raises(NotMigrated, match=command):
        list(mp.read())
    with pytest.raises(NotMigrated, match=command):
        mp.horizon()
    with pytest.raises(NotMigrated, match=command):
        log.horizon(empty, schema)
    for count in (1, 2, 300):
        with pytest.raises(NotMigrated, match=command):
            append(empty, *[Message("T", {})] * count, schema=schema)


def test_a_schema_without_our_tables_is_not_migrated(
    empty_database: str, empty: Connection
) -> None:
    empty.execute("create schema milepost")
    with (
        pytest.raises(NotMigrated, match="Run: milepost migrate"),
        Milepost(empty_database).connect(),
    ):
        pass
    with pytest.raises(NotMigrated, match="Run: milepost migrate"):
        append(empty, Message("T", {}))
    migrate.migrate(empty)
    assert append(empty, Message("T", {}))


def test_an_older_schema_is_refused_with_the_command(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = (*sql.migrations(), Migration(LAST + 1, "later", ""))
    monkeypatch.setattr(sql, "migrations", lambda: newer)
    with (
        pytest.raises(NotMigrated, match="Run: milepost migrate") as caught,
        Milepost(url).connect(),
    ):
        pass
    assert (caught.value.found, caught.value.needed) == (LAST, LAST + 1)


def test_the_schema_of_the_next_release_is_accepted_and_left_as_it_is(
    url: str, conn: Connection
) -> None:
    """Its functions too: the code of this release may migrate, as in a start script."""
    conn.execute("insert into milepost.migrations (number, name) values (9999, 'next')")
    conn.execute(
        "update milepost.log set oldest_code = %s, functions_digest = 'of the next'", [LAST]
    )
    mp = Milepost(url)
    with mp.connect() as other:
        append(other, Message("T", {}))
    assert mp.migrate() == []
    assert conn.execute("select functions_digest from milepost.log").fetchall() == [
        ("of the next",)
    ]


def test_a_newer_schema_than_that_is_refused(url: str, conn: Connection) -> None:
    conn.execute("insert into milepost.migrations (number, name) values (9999, 'future')")
    conn.execute("update milepost.log set oldest_code = %s", [LAST + 1])
    with (
        pytest.raises(SchemaTooNew, match="pip install --upgrade") as caught,
        Milepost(url).connect(),
    ):
        pass
    assert (caught.value.found, caught.value.known) == (9999, LAST)
    with pytest.raises(SchemaTooNew):
        migrate.migrate(conn)


# As development versions left it, before there was a baseline: from migration 10 on as a view.
BEFORE_THE_BASELINE = """
insert into milepost.migrations (number, name)
select n, 'n' || n from generate_series(2, 29) as n;
update milepost.migrations set name = 'log' where number = 1;
alter table milepost.migrations rename to applied_migrations;
create view milepost.migrations as select * from milepost.applied_migrations;
"""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("update milepost.migrations set name = 'log'", "1 'log'"),
        ("update milepost.migrations set number = 2", "no migration 1"),
        (BEFORE_THE_BASELINE, "1 'log'"),
    ],
)
def test_a_schema_of_another_line_of_versions_is_refused_before_the_first_step(
    conn: Connection, change: LiteralString, said: str
) -> None:
    conn.execute(change)
    before = applied(conn)
    with pytest.raises(ForeignMigration, match=said):
        migrate.migrate(conn)
    assert applied(conn) == before


def test_the_order_of_a_log_is_fixed(conn: Connection, order: LogOrder) -> None:
    other: LogOrder = "append" if order == "transaction" else "transaction"
    with pytest.raises(OrderIsFixed, match=f"--schema OTHER --order {other}"):
        migrate.migrate(conn, order=other)
    assert conn.execute("select log_order from milepost.log").fetchall() == [(order,)]


def test_changed_functions_are_applied_again(conn: Connection, mp: Milepost) -> None:
    append(conn, Message("T", {}))
    conn.execute(
        "create or replace function milepost.key_hash(key text) returns bigint "
        "language sql immutable return 7"
    )
    assert migrate.migrate(conn) == []
    conn.execute("update milepost.log set functions_digest = 'of an older version'")
    assert names(migrate.migrate(conn)) == ["functions"]
    assert conn.execute("select milepost.key_hash('abc')").fetchone() == (3128432319,)
    assert migrate.migrate(conn) == []
    assert [m.type for m in mp.read()] == ["T"]


@pytest.mark.parametrize("order", ["transaction"])
def test_applying_functions_again_keeps_what_a_rebase_decided(conn: Connection) -> None:
    conn.execute(
        "create or replace function milepost.transaction_base() returns bigint "
        "language sql immutable return 1000000"
    )
    conn.execute("update milepost.log set functions_digest = 'of an older version'")
    migrate.migrate(conn)
    assert conn.execute("select milepost.transaction_base()").fetchone() == (1000000,)


def with_broken_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "create table {schema}.half_way (n integer);\nselect 1 / 0;"
    broken = (*sql.migrations(), Migration(LAST + 1, "broken", text))
    monkeypatch.setattr(sql, "migrations", lambda: broken)


def test_a_failing_migration_leaves_nothing_behind(
    conn: Connection, monkeypatch: pytest.MonkeyPatch, mp: Milepost
) -> None:
    append(conn, Message("T", {}))
    with monkeypatch.context() as patch:
        with_broken_migration(patch)
        with pytest.raises(psycopg.errors.DivisionByZero):
            migrate.migrate(conn)
    assert applied(conn) == KNOWN
    assert conn.execute("select to_regclass('milepost.half_way')").fetchone() == (None,)
    assert migrate.migrate(conn) == []
    assert [m.type for m in mp.read()] == ["T"]


def test_a_first_migration_that_fails_leaves_no_schema_behind(
    empty: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    (baseline, *_) = sql.migrations()
    first = replace(baseline, text=f"{baseline.text}\nselect 1 / 0;")
    with monkeypatch.context() as patch:
        patch.setattr(sql, "migrations", lambda: (first,))
        with pytest.raises(psycopg.errors.DivisionByZero):
            migrate.migrate(empty)
    assert empty.execute("select to_regnamespace('milepost')").fetchone() == (None,)
    assert len(migrate.migrate(empty)) == LAST


def test_the_printed_script_does_what_migrate_does(empty: Connection, order: LogOrder) -> None:
    steps = migrate.plan(empty, "milepost", order)
    assert empty.execute("select to_regnamespace('milepost')").fetchone() == (None,)
    empty.execute(migrate.script(steps).encode())
    assert applied(empty) == KNOWN
    assert migrate.migrate(empty, order=order) == []
    assert append(empty, Message("T", {}))


def test_a_database_that_defaults_to_serializable_is_migrated(
    empty_database: str, empty: Connection, order: LogOrder
) -> None:
    alter = pgsql.SQL("alter database {} set default_transaction_isolation = serializable")
    empty.execute(alter.format(pgsql.Identifier(empty.info.dbname)))
    mp = Milepost(empty_database)
    mp.migrate(order)
    with psycopg.connect(empty_database) as plain:
        assert plain.execute("show default_transaction_isolation").fetchone() == ("serializable",)
    with mp.connect() as conn, conn.transaction():
        append(conn, Message("T", {}))
    assert [message.type for message in mp.read()] == ["T"]


@pytest.fixture
def plain_user(empty: Connection) -> Iterator[str]:
    empty.execute("drop role if exists milepost_plain_user")
    empty.execute("create role milepost_plain_user")
    yield "milepost_plain_user"
    empty.execute("reset role")
    empty.execute("drop owned by milepost_plain_user cascade")
    empty.execute("drop role milepost_plain_user")


def test_a_user_who_owns_the_schema_but_may_not_create_schemas_can_migrate(
    empty: Connection, plain_user: str, order: LogOrder
) -> None:
    empty.execute(f"create schema milepost authorization {plain_user}")
    empty.execute(f"set role {plain_user}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        empty.execute("create schema another")
    migrate.migrate(empty, order=order)
    append(empty, Message("T", {}))
    assert empty.execute("select type from milepost.read()").fetchall() == [("T",)]


def test_a_user_who_may_not_create_schemas_is_told_so(empty: Connection, plain_user: str) -> None:
    empty.execute(f"set role {plain_user}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        migrate.migrate(empty)


def test_a_schema_name_that_needs_escaping_is_refused(empty: Connection) -> None:
    with pytest.raises(InvalidSchemaName):
        migrate.migrate(empty, 'x"; drop schema milepost; --')
