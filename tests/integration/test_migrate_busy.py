"""A migration of tables that others use: it waits for nobody for long, and nobody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from milepost import Message, Milepost, append, db, migrate, sql
from milepost.db import Connection
from milepost.errors import MigrationBlocked
from milepost.migrate import Blocker
from milepost.sql import Migration
from tests.waiting import wait_until

ALTERING = Migration(
    sql.migrations()[-1].number + 1,
    "altering",
    "alter table {schema}.messages add column more text;",
)


@pytest.fixture
def reader(url: str) -> Iterator[Connection]:
    """As a pg_dump: it reads the log in a transaction that stays open."""
    with db.connect(url, application_name="a long dump") as conn:
        conn.execute("begin")
        conn.execute("select from milepost.messages").fetchall()
        yield conn


@pytest.fixture
def altering(monkeypatch: pytest.MonkeyPatch, conn: Connection) -> None:
    """One more migration than the database has, which alters a table."""
    known = (*sql.migrations(), ALTERING)
    monkeypatch.setattr(sql, "migrations", lambda: known)


def test_a_change_of_functions_alone_waits_for_nobody(
    conn: Connection, reader: Connection, mp: Milepost
) -> None:
    """What the tables call is as it was."""
    conn.execute("update milepost.log set functions_digest = 'of an older release'")
    waits: list[Sequence[Blocker]] = []
    (step,) = mp.migrate(on_wait=waits.append)
    assert (step.name, waits) == ("functions", [])


@pytest.mark.usefixtures("altering")
def test_appends_go_on_while_a_migration_waits_and_it_says_for_whom(
    reader: Connection, mp: Milepost, url: str, conn: Connection
) -> None:
    waits: list[Sequence[Blocker]] = []
    failures: list[BaseException] = []

    def migrating() -> None:
        try:
            mp.migrate(on_wait=waits.append)
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            failures.append(error)

    thread = threading.Thread(target=migrating)
    thread.start()
    wait_until(lambda: len(waits) >= 2)
    conn.execute("set statement_timeout = '30s'")
    append(conn, Message("While it waits", {}))
    reader.execute("commit")
    thread.join(60)
    assert not thread.is_alive()
    assert failures == []
    (blocker,) = [each for each in waits[0] if each.pid == reader.info.backend_pid]
    assert (blocker.application, "messages" in blocker.tables) == ("a long dump", True)
    assert f"pid {reader.info.backend_pid} (a long dump" in str(blocker)
    assert db.applied_number(conn, "milepost") == ALTERING.number


@pytest.mark.usefixtures("altering")
def test_a_migration_gives_up_with_the_names_of_those_who_are_in_its_way(
    reader: Connection, mp: Milepost, conn: Connection
) -> None:
    refused = pytest.raises(MigrationBlocked, match=f"pid {reader.info.backend_pid} .a long dump")
    with refused as caught:
        mp.migrate(wait_seconds=0)
    assert caught.value.blockers
    assert db.applied_number(conn, "milepost") == ALTERING.number - 1


@pytest.mark.usefixtures("altering")
def test_a_step_keeps_others_waiting_no_longer_than_its_time_limit(
    reader: Connection, url: str
) -> None:
    """Without it, an append would wait for as long as the reader does."""
    with db.connect(url) as conn:
        for step in migrate.plan(conn, "milepost"):
            assert step.text.startswith("set local lock_timeout = '200ms';")
