"""The optional indexes: created while the log is in use, and again after an interruption."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import psycopg
import pytest

from milepost import Message, Milepost, append, db
from milepost.db import Connection
from milepost.errors import DuplicateIds, MigrationBlocked
from milepost.sql import LogOrder
from tests.integration.cli.command import Cli
from tests.waiting import wait_until

BOTH = ["index messages_key", "index messages_id"]
CREATING = """
select count(*) from pg_stat_activity
where query like 'create index concurrently%' and state = 'active' and wait_event_type = 'Lock'
"""
VALID = """
select c.relname from pg_index as i join pg_class as c on c.oid = i.indexrelid
where i.indrelid = 'milepost.messages'::regclass and i.indisvalid and c.relname <> 'messages_pkey'
  and c.relname <> 'messages_recorded_at'
order by c.relname desc
"""


@pytest.fixture
def order() -> LogOrder:
    """They are the same in both."""
    return "append"


@pytest.fixture
def held(url: str) -> Iterator[Connection]:
    """A transaction that has appended and stays open."""
    with db.connect(url, application_name="a long append") as conn:
        conn.execute("begin")
        append(conn, Message("Held", {}, key="k"))
        yield conn


def valid(conn: Connection) -> list[str]:
    return [name for (name,) in conn.execute(VALID)]


def names(mp: Milepost, *, key: bool = True, id_: bool = True) -> list[str]:
    return [step.name for step in mp.migrate(key_index=key, id_index=id_)]


def test_they_are_created_once_and_only_on_request(mp: Milepost, conn: Connection) -> None:
    append(conn, Message("T", {}, key="k"))
    assert (mp.migrate(), valid(conn)) == ([], [])
    assert names(mp, id_=False) == BOTH[:1]
    assert names(mp) == BOTH[1:]
    assert names(mp) == []
    assert mp.migrate() == []
    assert valid(conn) == ["messages_key", "messages_id"]


def test_the_command_creates_them_and_prints_them(url: str, conn: Connection) -> None:
    cli = Cli(url)
    flags = ("--with-key-index", "--with-id-index")
    printed = cli.run("migrate", "--sql", *flags).stdout
    assert "begin" not in printed
    for statement in printed.split(";\n"):
        if statement.strip():
            conn.execute(statement.encode())
    assert valid(conn) == ["messages_key", "messages_id"]
    assert cli.run("migrate", "--sql", *flags).stdout == ""
    conn.execute("drop index milepost.messages_key")
    assert cli.run("migrate", *flags).stdout == "applied index messages_key\n"


def test_appends_go_on_while_one_is_created(
    mp: Milepost, conn: Connection, held: Connection
) -> None:
    conn.execute("set lock_timeout = '5s'")
    with ThreadPoolExecutor() as pool:
        created = pool.submit(lambda: names(mp, id_=False))
        wait_until(lambda: conn.execute(CREATING).fetchone() == (1,))
        append(conn, Message("Meanwhile", {}, key="k"))
        held.execute("commit")
        assert created.result(30) == BOTH[:1]
    assert [message.type for message in mp.read(key="k")] == ["Held", "Meanwhile"]


def test_one_that_waits_too_long_says_for_whom_and_is_resumed(
    mp: Milepost, url: str, conn: Connection, held: Connection
) -> None:
    with pytest.raises(MigrationBlocked, match="a long append"):
        mp.migrate(key_index=True, wait_seconds=0.3)
    assert valid(conn) == []
    for command in ("status", "doctor"):
        assert "messages_key" in Cli(url).run(command).stdout
    held.execute("commit")
    doctor = Cli(url).run("doctor")
    assert doctor.code != 0
    assert "milepost migrate --with-key-index" in doctor.stdout
    assert "drop index concurrently" in Cli(url).run("migrate", "--with-key-index", "--sql").stdout
    assert names(mp, id_=False) == BOTH[:1]
    assert "messages_key" not in Cli(url).run("status").stdout


def test_two_processes_create_one_index(mp: Milepost, url: str, held: Connection) -> None:
    gate = threading.Barrier(3)

    def create() -> list[str]:
        gate.wait(30)
        return names(Milepost(url), id_=False)

    with ThreadPoolExecutor() as pool:
        both = [pool.submit(create) for _ in range(2)]
        gate.wait(30)
        with mp.connect() as conn:
            wait_until(lambda: conn.execute(CREATING).fetchone() == (1,))
        held.execute("commit")
        assert sorted(each.result(60) for each in both) == [[], BOTH[:1]]


def test_a_killed_creation_is_resumed(mp: Milepost, conn: Connection, held: Connection) -> None:
    with ThreadPoolExecutor() as pool:
        created = pool.submit(lambda: names(mp, id_=False))
        wait_until(lambda: conn.execute(CREATING).fetchone() == (1,))
        conn.execute(CREATING.replace("count(*)", "pg_terminate_backend(pid)"))
        with pytest.raises(psycopg.OperationalError):
            created.result(30)
    held.execute("commit")
    assert names(mp) == BOTH


def test_ids_that_several_messages_have_are_named(mp: Milepost, conn: Connection) -> None:
    id_ = uuid4()
    first, second = (append(conn, Message("T", n, id=id_))[0] for n in range(2))
    with pytest.raises(DuplicateIds, match=rf"{id_} at {first}, {second}\.") as caught:
        mp.migrate(id_index=True)
    assert caught.value.positions == {str(id_): [str(first), str(second)]}
    assert conn.execute("select to_regclass('milepost.messages_id')").fetchone() == (None,)
    append(conn, Message("T", 3, id=id_))
