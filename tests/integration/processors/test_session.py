"""Processors whose handlers are given a Session of SQLAlchemy."""

from __future__ import annotations

import pytest
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from milepost import Milepost, RecordedMessage
from milepost.db import Connection
from tests.integration.processors.conftest import Put
from tests.orm import Noted, SessionLocal, Total, make_tables, totals, values

pytestmark = pytest.mark.usefixtures("tables")


@pytest.fixture
def tables(conn: Connection) -> None:
    make_tables(conn)


def note(session: Session | AsyncSession, message: RecordedMessage) -> None:
    session.add(Noted(key=message.key, value=message.data["number"]))


def test_a_handler_writes_through_a_session_of_the_checkpoint_s_transaction(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    @mp.processor("billing", session=SessionLocal, batch_size=4)
    def bill(messages: list[RecordedMessage], session: Session) -> None:
        for message in messages:
            note(session, message)
            total = session.get(Total, message.key) or Total(key=message.key, total=0)
            total.total += message.data["number"]
            session.add(total)

    put(10, keys=2)
    bill.run(until="caught_up")
    assert values(conn) == list(range(1, 11))
    assert totals(conn) == {"key-0": 30, "key-1": 25}


def test_an_async_handler_is_given_an_async_session(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    @mp.processor("billing", session=SessionLocal, batch_size=4)
    async def bill(messages: list[RecordedMessage], tx: AsyncSession) -> None:
        assert isinstance(tx, AsyncSession)
        for message in messages:
            note(tx, message)
            total = await tx.get(Total, message.key) or Total(key=message.key, total=0)
            total.total += message.data["number"]
            tx.add(total)

    put(10, keys=2)
    bill.run(until="caught_up")
    assert values(conn) == list(range(1, 11))
    assert totals(conn) == {"key-0": 30, "key-1": 25}
