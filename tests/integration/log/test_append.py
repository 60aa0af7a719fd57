from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row

from milepost import Message, Milepost, Position, append
from milepost.db import Connection
from milepost.errors import InvalidMessage, UnreadableMessage
from milepost.log.append import COPY_FROM
from tests.waiting import wait_until

ONE, FEW, MANY = 1, 5, COPY_FROM + 50


def orders(count: int) -> list[Message]:
    return [
        Message("OrderPlaced", {"order": n, "note": "Ünïcode \\ \t '"}, key=f"k{n}", topic="orders")
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [ONE, FEW, MANY])
def test_what_was_appended_is_read_back_in_order(
    mp: Milepost, conn: Connection, count: int
) -> None:
    messages = orders(count)
    positions = append(conn, *messages)
    read = list(mp.read())
    assert [m.position for m in read] == positions == sorted(set(positions))
    assert [(m.id, m.type, m.data, m.key, m.topic, m.metadata) for m in read] == [
        (m.id, m.type, m.data, m.key, m.topic, m.metadata) for m in messages
    ]


@pytest.mark.parametrize("count", [ONE, FEW, MANY])
def test_async_connections_append_alike(mp: Milepost, url: str, count: int) -> None:
    async def appending() -> list[Position]:
        conn = await psycopg.AsyncConnection.connect(url)
        async with conn, conn.transaction():
            return await append(conn, *orders(count))

    positions = asyncio.run(appending())
    assert [m.position for m in mp.read()] == positions
    assert len(positions) == count


@pytest.mark.parametrize("count", [ONE, FEW, MANY])
def test_a_connection_that_gives_dicts_appends_alike(mp: Milepost, url: str, count: int) -> None:
    async def appending() -> list[Position]:
        async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as conn:
            return await append(conn, *orders(count))

    with psycopg.connect(url, row_factory=dict_row) as conn:
        positions = append(conn, *orders(count))
    positions += asyncio.run(appending())
    assert [m.position for m in mp.read()] == positions
    assert len(positions) == 2 * count


@pytest.mark.parametrize("count", [ONE, FEW, MANY])
def test_nothing_is_visible_before_commit_and_nothing_stays_after_rollback(
    mp: Milepost, conn: Connection, count: int
) -> None:
    with conn.transaction(force_rollback=True):
        append(conn, *orders(count))
        assert list(mp.read()) == []
    assert list(mp.read()) == []


@pytest.mark.parametrize("count", [ONE, FEW, MANY])
def test_a_rolled_back_savepoint_takes_its_messages_along(
    mp: Milepost, conn: Connection, count: int
) -> None:
    with conn.transaction():
        before = append(conn, Message("Before", {}))
        with conn.transaction(force_rollback=True):
            append(conn, *orders(count))
        after = append(conn, *orders(count))
    assert [m.position for m in mp.read()] == before + after


def test_many_messages_outside_a_transaction_are_one_transaction(
    mp: Milepost, conn: Connection
) -> None:
    duplicate = Message("Twice", {})
    conn.execute("create unique index on milepost.messages (id)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        append(conn, *orders(MANY), duplicate, duplicate)
    assert list(mp.read()) == []


def test_positions_drawn_by_others_during_a_copy_are_told_apart(
    mp: Milepost, conn: Connection
) -> None:
    """Another transaction draws after our floor was read and before our rows are written: it
    holds a lock that our COPY has to wait for."""
    messages = orders(MANY)
    waiting = "select exists (select from pg_locks where pid = %s and not granted)"
    with mp.connect() as other, mp.connect() as observer, ThreadPoolExecutor(1) as pool:
        with other.transaction():
            other.execute("lock table milepost.messages in share row exclusive mode")
            appended = pool.submit(append, conn, *messages)
            pid = conn.info.backend_pid
            wait_until(lambda: observer.execute(waiting, [pid]).fetchone() == (True,))
            foreign = append(other, *orders(FEW))
        positions = appended.result()
    by_id = {m.id: m.position for m in mp.read()}
    assert positions == [by_id[m.id] for m in messages]
    assert not set(positions) & set(foreign)


@pytest.mark.parametrize("count", [ONE, FEW, MANY])
def test_a_connection_without_autocommit_commits_when_its_owner_does(
    mp: Milepost, url: str, count: int
) -> None:
    with psycopg.connect(url) as owned:
        append(owned, *orders(count))
        owned.rollback()
        assert list(mp.read()) == []
        positions = append(owned, *orders(count))
        assert list(mp.read()) == []
        owned.commit()
    assert [m.position for m in mp.read()] == positions


@pytest.mark.parametrize("count", [ONE, FEW, MANY])
def test_an_async_connection_without_autocommit_commits_when_its_owner_does(
    mp: Milepost, url: str, count: int
) -> None:
    async def appending() -> list[Position]:
        async with await psycopg.AsyncConnection.connect(url) as owned:
            await append(owned, *orders(count))
            await owned.rollback()
            return await append(owned, *orders(count))

    positions = asyncio.run(appending())
    assert [m.position for m in mp.read()] == positions


def test_one_bad_message_among_many_leaves_the_transaction_as_it_was(
    mp: Milepost, conn: Connection
) -> None:
    bad = Message("Bad", {"value": float("nan")})
    with conn.transaction():
        kept = append(conn, Message("Before", {}))
        with pytest.raises(InvalidMessage, match="nan"):
            append(conn, *orders(MANY), bad)
        kept += append(conn, Message("After", {}))
    assert [m.position for m in mp.read()] == kept


def test_ids_are_version_7_and_a_callers_own_is_kept(conn: Connection, mp: Milepost) -> None:
    own = UUID("00000000-0000-4000-8000-000000000001")
    append(conn, Message("Own", {}, id=own), Message("Made", {}))
    conn.execute("insert into milepost.messages (type, data) values ('Sql', '{}')")
    kept, made, in_sql = (m.id for m in mp.read())
    assert kept == own
    assert (made.version, in_sql.version) == (7, 7)


def test_data_is_kept_as_written(conn: Connection) -> None:
    written = '{"b":1,   "a": 1.10, "a": 2}'
    conn.execute("select milepost.append('Raw', %s::json)", [written])
    row = conn.execute("select data::text from milepost.messages").fetchone()
    assert row == (written,)


def test_sql_append_answers_with_the_position(conn: Connection, mp: Milepost) -> None:
    row = conn.execute(
        "select * from milepost.append('Sql', '{\"n\": 1}', 'key', topic => 'topic')"
    ).fetchone()
    (message,) = mp.read()
    assert row == (message.position.transaction_id, message.position.position)
    assert (message.key, message.topic, message.data) == ("key", "topic", {"n": 1})


def test_sql_append_many_keeps_the_order_of_the_array(conn: Connection, mp: Milepost) -> None:
    given = [{"type": f"T{n}", "data": {"n": n}} for n in range(50)]
    rows = conn.execute(
        "select transaction_id, position from milepost.append_many(%s::json)", [json.dumps(given)]
    ).fetchall()
    read = list(mp.read())
    assert [(m.position.transaction_id, m.position.position) for m in read] == rows
    assert [m.type for m in read] == [f"T{n}" for n in range(50)]


@pytest.mark.parametrize("order", ["append"])
def test_explicit_positions_are_refused(conn: Connection) -> None:
    with pytest.raises(psycopg.errors.GeneratedAlways):
        conn.execute("insert into milepost.messages (position, type, data) values (1, 'T', '{}')")


@pytest.mark.parametrize("written", ['"\\ud800"', "1e400"])
def test_json_that_only_postgresql_takes_does_not_stop_a_reader(
    conn: Connection, mp: Milepost, written: str
) -> None:
    conn.execute("select milepost.append('Odd', %s::json)", [written])
    append(conn, Message("Next", {}))
    assert [m.type for m in mp.read()] == ["Odd", "Next"]


def test_json_nested_beyond_python_is_a_clear_error(conn: Connection, mp: Milepost) -> None:
    conn.execute("select milepost.append('Deep', %s::json)", ["[" * 3000 + "]" * 3000])
    with pytest.raises(UnreadableMessage, match="nested deeper"):
        list(mp.read())
