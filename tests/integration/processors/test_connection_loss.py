"""Connections that are lost again and again: nothing lost, nothing doubled, and it goes on."""

from __future__ import annotations

import asyncio
import random
import threading
import time

import psycopg
import pytest

from milepost import Milepost, Position, RecordedMessage, Retry
from milepost.db import AsyncConnection, Connection
from milepost.processors.set_aside.dead_letters import list_dead_letters
from milepost.sql import DEFAULT_SCHEMA
from tests.integration.processors import sessions
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, Instance, leave, leave_all, running
from tests.waiting import wait_until

LOSSES = 15


def lose_connections(conn: Connection, put: Put, effects: Effects, processor: str) -> int:
    """Append and terminate by turns, one session or all; how many messages that were. Not
    before it has been connected once: a first connection that fails is an error."""
    appended, ended = len(put(5)), 0
    effects.wait_for(appended)
    while ended < LOSSES:
        appended += len(put(5))
        effects.wait_for(appended - 25)
        ended += sessions.terminate(conn, processor, most=random.choice([1, 3]))
    return appended


def test_every_effect_happens_once_though_sessions_end_all_the_time(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    @mp.processor("losing", batch_size=3, retry=Retry(limit=0), on_failure="skip")
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        time.sleep(random.uniform(0, 0.005))

    with running(keep):
        appended = lose_connections(conn, put, effects, "losing")
        effects.wait_for(appended)
    assert effects.positions() == in_order(conn)
    assert list_dead_letters(conn, DEFAULT_SCHEMA) == [], "taken for a failure of the handler"


def test_every_effect_of_an_async_handler_happens_once_though_sessions_end_all_the_time(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    @mp.processor("losing", batch_size=3, retry=Retry(limit=0), on_failure="skip")
    async def keep(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        for message in messages:
            await tx.execute(
                "insert into effects (transaction_id, position) values (%s, %s)",
                [message.position.transaction_id, message.position.position],
            )

    with running(keep):
        appended = lose_connections(conn, put, effects, "losing")
        effects.wait_for(appended)
    assert effects.positions() == in_order(conn)
    assert list_dead_letters(conn, DEFAULT_SCHEMA) == [], "taken for a failure of the handler"


def test_a_session_that_ends_in_the_hands_of_an_async_handler_is_not_its_failure(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    """The other sessions live on, so the message could be set aside by mistake."""
    has_begun, is_released = threading.Event(), threading.Event()

    @mp.processor("losing", retry=Retry(limit=0), on_failure="skip")
    async def keep(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        has_begun.set()
        await asyncio.to_thread(is_released.wait)
        for message in messages:
            await tx.execute(
                "insert into effects (transaction_id, position) values (%s, %s)",
                [message.position.transaction_id, message.position.position],
            )

    positions = put(3)
    with running(keep):
        assert has_begun.wait(30)
        sessions.terminate_in_transaction(conn, "losing")
        is_released.set()
        wait_until(lambda: effects.count() or list_dead_letters(conn, DEFAULT_SCHEMA))
    assert effects.positions() == positions
    assert list_dead_letters(conn, DEFAULT_SCHEMA) == []


@pytest.mark.parametrize("concurrency", [1, 4])
def test_at_least_once_nothing_is_lost_though_sessions_end_all_the_time(
    url: str, mp: Milepost, conn: Connection, effects: Effects, put: Put, concurrency: int
) -> None:
    def keep(message: RecordedMessage) -> None:
        with psycopg.connect(url, autocommit=True) as own:
            leave(message, own)

    processor = mp.processor(
        "losing", handle="message", delivery="at_least_once", concurrency=concurrency,
        batch_size=3, checkpoint_every=2,
    )(keep)  # fmt: skip
    with running(processor):
        lose_connections(conn, put, effects, "losing")
        expected = set(in_order(conn))
        wait_until(lambda: set(effects.positions()) == expected)
        wait_until(processor.caught_up)


def in_order(conn: Connection) -> list[Position]:
    rows = conn.execute(
        "select transaction_id, position from milepost.messages order by transaction_id, position"
    )
    return [Position(*row) for row in rows]


@pytest.mark.parametrize("lost", ["losing", "watcher"])
def test_a_connection_that_is_lost_while_nobody_uses_it_is_replaced(
    mp: Milepost, conn: Connection, effects: Effects, put: Put, lost: str
) -> None:
    """That of the batches, which nobody looks at, or the one that waits for messages."""
    processor = mp.processor("losing", poll_seconds=3600)(leave_all)
    with running(processor):
        for n in range(1, 4):
            put(1)
            effects.wait_for(n)
            wait_until(lambda: sessions.terminate(conn, lost))


def test_a_first_connection_that_is_impossible_is_an_error_at_once() -> None:
    mp = Milepost("postgresql://postgres@/nowhere?host=/nonexistent")
    instance = Instance(mp.processor("hopeless")(leave_all))
    assert isinstance(instance.ends(), psycopg.OperationalError)
