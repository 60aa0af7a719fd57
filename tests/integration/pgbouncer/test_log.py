"""The log through PgBouncer in transaction mode: appended in own transactions, read in order."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing
from threading import Thread

import pytest

from milepost import Message, Milepost, append, db
from milepost.db import Connection
from milepost.sql import LogOrder
from tests.integration.cli.command import Cli
from tests.pgbouncer import SESSIONS, PgBouncer
from tests.server import TestServer
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


def messages(count: int) -> list[Message]:
    return [Message("Counted", {"n": n}, key=f"k{n % 7}") for n in range(count)]


def numbers(mp: Milepost) -> list[int]:
    return [message.data["n"] for message in mp.read()]


def test_one_connection_meets_all_sessions(pooled_conn: Connection) -> None:
    """What the other tests rely on."""
    asked = [pooled_conn.execute("select pg_backend_pid()").fetchone() for _ in range(SESSIONS)]
    assert len(set(asked)) == SESSIONS


def test_messages_exist_exactly_if_their_transaction_commits(
    pooled: Milepost, pooled_conn: Connection
) -> None:
    with pooled_conn.transaction():
        first = pooled.append(pooled_conn, *messages(1))
        many = pooled.append(pooled_conn, *messages(300))  # by COPY
    with pooled_conn.transaction(force_rollback=True):
        pooled.append(pooled_conn, *messages(5), *messages(300))
    alone = [pooled.append(pooled_conn, *messages(3)) for _ in range(10)]
    expected = first + many + [position for positions in alone for position in positions]
    assert [message.position for message in pooled.read()] == expected


def test_appending_and_reading_take_a_hundred_small_transactions(
    pooled: Milepost, pooled_conn: Connection
) -> None:
    """Far more than psycopg needs to prepare a statement."""
    with pooled.reader(batch_size=3) as reader:
        for number in range(100):
            append(pooled_conn, Message("Counted", {"n": number}))
            assert [message.data["n"] for message in reader.messages()] == [number]


def test_coroutines_append_too(pooled: Milepost, pooled_url: str) -> None:
    async def appending() -> None:
        async with await db.connect_async(pooled_url) as conn:
            for _ in range(20):
                async with conn.transaction():
                    await pooled.append(conn, *messages(2))
            await pooled.append(conn, *messages(300))

    asyncio.run(appending())
    assert numbers(pooled) == [0, 1] * 20 + list(range(300))


def test_a_reader_that_follows_polls(pooled: Milepost, mp: Milepost, conn: Connection) -> None:
    seen: list[int] = []

    def follow() -> None:
        for message in pooled.read(follow=True, poll_seconds=0.05):
            seen.append(message.data["n"])
            if len(seen) == 10:
                return

    thread = Thread(target=follow, daemon=True)
    thread.start()
    for number in range(10):
        mp.append(conn, Message("Counted", {"n": number}))
        wait_until(lambda n=number: len(seen) == n + 1)  # type: ignore[misc]
    thread.join(30)
    assert seen == list(range(10))


def test_whoever_is_gone_keeps_no_lock(
    pooled: Milepost, pooled_url: str, pooled_conn: Connection
) -> None:
    """PgBouncer ends the session in which a client left a transaction open."""
    with closing(db.connect(pooled_url)) as leaving:
        leaving.execute("begin")
        pooled.append(leaving, *messages(1))
        with socket.fromfd(leaving.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as wire:
            wire.shutdown(socket.SHUT_RDWR)  # as when its process is killed: without a word
        pooled.append(pooled_conn, Message("Counted", {"n": 7}))
        wait_until(lambda: numbers(pooled) == [7])


def test_commands_take_such_a_url(pooled_url: str, pooled: Milepost) -> None:
    cli = Cli(pooled_url)
    assert cli.run("append", stdin='{"type": "Counted", "data": {"n": 1}}\n').code == 0
    assert cli.run("doctor").code == 0
    assert cli.run("status", "--json").code == 0
    assert numbers(pooled) == [1]


def test_a_database_is_migrated_through_it(
    bouncer: PgBouncer, server: TestServer, order: LogOrder
) -> None:
    name = server.create_database("empty")
    try:
        mp = Milepost(f"{bouncer.url(name)} pgbouncer=true")
        assert mp.migrate(order)
        assert mp.migrate(order) == []
        with mp.connect() as conn:
            mp.append(conn, *messages(2))
        assert numbers(mp) == [0, 1]
    finally:
        server.drop_database(name)
