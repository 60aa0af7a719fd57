"""A handler cannot end the transaction of its Session, nor undo what it would then commit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from sqlalchemy.exc import IntegrityError, StatementError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from milepost import Milepost, RecordedMessage, Retry
from milepost.db import Connection
from milepost.errors import HandlerFailed
from tests.integration.processors.conftest import Put
from tests.orm import Noted, SessionLocal, Total, note, totals, values

NEVER = Retry(limit=0)


def leave_block(session: Session) -> None:
    with session:
        session.flush()


def use_begin_block(session: Session) -> None:
    with session.begin():
        session.flush()


def commit_root(session: Session) -> None:
    transaction = session.get_transaction()
    assert transaction is not None
    transaction.commit()


def roll_back_root(session: Session) -> None:
    transaction = session.get_transaction()
    assert transaction is not None
    transaction.rollback()


def commit_in_savepoint(session: Session) -> None:
    with session.begin_nested():
        session.commit()


def go_on_after_commit(session: Session) -> None:
    with suppress(Exception):
        session.commit()


def go_on_after_rollback(session: Session) -> None:
    with suppress(Exception):
        session.rollback()


def go_on_after_failed_flush(session: Session) -> None:
    """Of a value that never reaches the server: its transaction is not aborted."""
    session.add(Total(key="bad", total=object()))
    with pytest.raises(StatementError):
        session.flush()


def go_on_after_failed_statement(session: Session) -> None:
    session.add_all([Total(key="a", total=1), Total(key="a", total=2)])
    with pytest.raises(IntegrityError):
        session.flush()


ENDINGS: dict[Callable[[Session], object], str] = {
    Session.commit: r"commit\(\) was called",
    Session.rollback: r"rollback\(\) was called",
    Session.close: r"close\(\) was called",
    Session.reset: r"reset\(\) was called",
    Session.invalidate: r"invalidate\(\) was called",
    leave_block: r"close\(\) was called",
    use_begin_block: r"begin\(\) was called",
    commit_root: r"commit\(\) was called",
    roll_back_root: r"rollback\(\) was called",
    commit_in_savepoint: r"commit\(\) was called",
    go_on_after_commit: r"commit\(\) was called",
    go_on_after_rollback: r"rollback\(\) was called",
    go_on_after_failed_flush: r"rollback\(\) was called",
    go_on_after_failed_statement: r"rollback\(\) was called",
}


def test_what_would_end_the_transaction_is_refused(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    """One processor after another, each with another way to end it."""
    put(2)
    for number, (end, reason) in enumerate(ENDINGS.items()):

        @mp.processor(f"billing-{number}", session=SessionLocal, retry=NEVER)
        def bill(
            messages: list[RecordedMessage],
            session: Session,
            end: Callable[[Session], object] = end,
        ) -> None:
            note(session, messages[0])
            session.flush()
            getattr(session, end.__name__, lambda: end(session))()

        with pytest.raises(HandlerFailed, match=f"SessionCallRefused: {reason}") as caught:
            bill.run(until="caught_up")
        assert "begin_nested()" in str(caught.value)
        assert (end, values(conn)) == (end, [])
        assert not bill.caught_up()


async def use_begin_block_async(session: AsyncSession) -> None:
    async with session.begin():
        await session.flush()


async def leave_block_async(session: AsyncSession) -> None:
    async with session:
        await session.flush()


async def go_on_after_failed_flush_async(session: AsyncSession) -> None:
    session.add(Total(key="bad", total=object()))
    with pytest.raises(StatementError):
        await session.flush()


async def commit_connection(session: AsyncSession) -> None:
    await (await session.connection()).commit()


ASYNC_ENDINGS: dict[Callable[[AsyncSession], Awaitable[None]], str] = {
    AsyncSession.commit: r"commit\(\) was called",
    AsyncSession.rollback: r"rollback\(\) was called",
    AsyncSession.close: r"close\(\) was called",
    use_begin_block_async: r"begin\(\) was called",
    leave_block_async: r"close\(\) was called",
    go_on_after_failed_flush_async: r"rollback\(\) was called",
    commit_connection: r"commit\(\) was called",
}


def test_an_async_session_refuses_the_same(mp: Milepost, conn: Connection, put: Put) -> None:
    put(2)
    for number, (end, reason) in enumerate(ASYNC_ENDINGS.items()):

        @mp.processor(f"billing-{number}", session=SessionLocal, retry=NEVER)
        async def bill(
            messages: list[RecordedMessage],
            session: AsyncSession,
            end: Callable[[AsyncSession], Awaitable[None]] = end,
        ) -> None:
            note(session, messages[0])
            await session.flush()
            await end(session)

        with pytest.raises(HandlerFailed, match=f"SessionCallRefused: {reason}"):
            bill.run(until="caught_up")
        assert (end, values(conn)) == (end, [])


def test_a_savepoint_is_undone_alone(mp: Milepost, conn: Connection, put: Put) -> None:
    """Of what fails in the database, and of what the handler undoes itself."""

    @mp.processor("billing", session=SessionLocal)
    def bill(messages: list[RecordedMessage], session: Session) -> None:
        for message in messages:
            note(session, message)
        with pytest.raises(IntegrityError), session.begin_nested():
            session.add(Noted(key="twice", value=1))
        with session.begin(nested=True) as undone:
            session.add(Total(key="undone", total=1))
            session.flush()
            undone.rollback()
        with session.begin_nested():
            session.add(Total(key="kept", total=2))

    put(3)
    bill.run(until="caught_up")
    assert values(conn) == [1, 2, 3]
    assert totals(conn) == {"kept": 2}


def test_an_async_savepoint_too(mp: Milepost, conn: Connection, put: Put) -> None:
    @mp.processor("billing", session=SessionLocal)
    async def bill(messages: list[RecordedMessage], session: AsyncSession) -> None:
        for message in messages:
            note(session, message)
        with pytest.raises(IntegrityError):
            async with session.begin_nested():
                session.add(Noted(key="twice", value=1))

    put(3)
    bill.run(until="caught_up")
    assert values(conn) == [1, 2, 3]


def test_the_isolation_level_stays(mp: Milepost, put: Put) -> None:
    @mp.processor("billing", session=SessionLocal, retry=NEVER)
    def bill(messages: list[RecordedMessage], session: Session) -> None:
        session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})

    put(1)
    with pytest.raises(HandlerFailed, match=r"isolation_level=\.\.\.\) was called"):
        bill.run(until="caught_up")
