"""Effects through a Session are there exactly once, whatever happens between the flush and the
commit."""

from __future__ import annotations

import signal

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from milepost import Milepost, RecordedMessage
from milepost.db import Connection
from tests.integration.processors import application
from tests.integration.processors.application import started, wait_until_handling
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import running
from tests.orm import SessionLocal, note, values
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("quick_orders")
END_SESSION = text("select pg_terminate_backend(pg_backend_pid())")


def bill(messages: list[RecordedMessage], session: Session) -> None:
    for message in messages:
        note(session, message)


def test_a_process_that_is_killed_after_the_flush(
    mp: Milepost, url: str, conn: Connection, put: Put
) -> None:
    put(3)
    with started(url, "endless_session") as process:
        wait_until_handling(process)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert values(conn) == []
    billing = mp.processor(application.NAME, session=SessionLocal)(bill)
    billing.run(until="caught_up")
    assert values(conn) == [1, 2, 3]


@pytest.mark.parametrize("segments", [None, 1])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_connection_that_is_lost_after_the_flush(
    mp: Milepost, conn: Connection, put: Put, is_async: bool, segments: int | None
) -> None:
    """It is not the handler's failure: the session is opened again."""
    losses: list[int] = []
    billing = mp.processor("billing", session=SessionLocal, segments=segments)

    def lose(messages: list[RecordedMessage], session: Session) -> None:
        bill(messages, session)
        session.flush()
        if len(losses) < 2:
            losses.append(1)
            session.execute(END_SESSION)

    async def lose_async(messages: list[RecordedMessage], session: AsyncSession) -> None:
        await session.run_sync(lambda own: lose(messages, own))

    put(3)
    with running(billing(lose_async if is_async else lose)):
        wait_until(lambda: len(values(conn)) >= 3)
    assert values(conn) == [1, 2, 3]
    assert len(losses) == 2


def test_competing_instances(url: str, conn: Connection, put: Put) -> None:
    """Three instances without segments: all but one are in conflict and leave nothing. An effect
    that happens twice violates the unique constraint and fails the instance."""
    put(60)
    instances = [
        Milepost(url).processor("billing", session=SessionLocal, batch_size=3)(bill)
        for _ in range(3)
    ]
    with running(*instances):
        wait_until(lambda: len(values(conn)) >= 60)
    assert values(conn) == list(range(1, 61))
