"""Handlers are given a Session of SQLAlchemy, in every way in which a processor delivers."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import pytest
import sqlmodel
from sqlalchemy.exc import ResourceClosedError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlmodel.ext.asyncio.session import AsyncSession as SQLModelAsyncSession

from milepost import Job, Message, Milepost, Position, RecordedMessage, Retry
from milepost.db import Connection
from milepost.errors import HandlerFailed
from milepost.processors.set_aside.dead_letters import list_dead_letters, request_retry
from milepost.sql import DEFAULT_SCHEMA
from tests.integration.processors.conftest import Put
from tests.orm import Noted, SessionLocal, Total, note, totals, values

QUICK = Retry(limit=1, first_seconds=0.001)


def add_up(session: Session, message: RecordedMessage) -> None:
    total = session.get(Total, message.key) or Total(key=message.key, total=0)
    total.total += message.data["number"]
    session.add(total)


def test_effects_of_all_batches_are_there_once(mp: Milepost, conn: Connection, put: Put) -> None:
    @mp.processor("billing", session=SessionLocal, batch_size=4)
    def bill(messages: list[RecordedMessage], session: Session) -> None:
        for message in messages:
            note(session, message)
            add_up(session, message)

    put(10, keys=2)
    bill.run(until="caught_up")
    assert values(conn) == list(range(1, 11))
    assert totals(conn) == {"key-0": 30, "key-1": 25}


def test_an_async_handler_is_given_an_async_session(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    @mp.processor("billing", session=SessionLocal, batch_size=4)
    async def bill(messages: list[RecordedMessage], tx: AsyncSession) -> None:
        for message in messages:
            note(tx, message)
            total = await tx.get(Total, message.key) or Total(key=message.key, total=0)
            total.total += message.data["number"]
            tx.add(total)

    put(10, keys=2)
    bill.run(until="caught_up")
    assert values(conn) == list(range(1, 11))
    assert totals(conn) == {"key-0": 30, "key-1": 25}


class Own(Session):
    """A user's class, with an engine of its own choice."""

    def get_bind(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("its statements must go into the processor's transaction")


FACTORIES: dict[str, Callable[..., Any]] = {
    "sessionmaker": sessionmaker(expire_on_commit=False, join_transaction_mode="create_savepoint"),
    "class": Session,
    "own class": sessionmaker(class_=Own),
    "scoped": scoped_session(SessionLocal),
    "function": lambda bind: Session(bind, autoflush=False),
    "sqlmodel": sqlmodel.Session,
    "two phases": sessionmaker(twophase=True),
}
ASYNC_FACTORIES: dict[str, Callable[..., Any]] = {
    "async_sessionmaker": async_sessionmaker(expire_on_commit=False),
    "sessionmaker": SessionLocal,
    "own class": Own,
    "class": AsyncSession,
    "function": lambda bind: AsyncSession(bind),
    "sqlmodel": SQLModelAsyncSession,
}


@pytest.mark.parametrize("factory", FACTORIES)
def test_sessions_are_made_by_the_user_s_factory(
    mp: Milepost, conn: Connection, put: Put, factory: str
) -> None:
    kinds: set[type] = set()

    @mp.processor("billing", session=FACTORIES[factory], handle="message")
    def bill(message: RecordedMessage, db_session: Session) -> None:
        kinds.add(type(db_session))
        note(db_session, message)

    put(3)
    bill.run(until="caught_up")
    assert values(conn) == [1, 2, 3]
    expected = {"own class": Own, "sqlmodel": sqlmodel.Session}.get(factory, Session)
    assert len(kinds) == 1
    assert issubclass(kinds.pop(), expected)


@pytest.mark.parametrize("factory", ASYNC_FACTORIES)
def test_async_sessions_too(mp: Milepost, conn: Connection, put: Put, factory: str) -> None:
    kinds: set[type] = set()

    @mp.processor("billing", session=ASYNC_FACTORIES[factory], handle="message")
    async def bill(message: RecordedMessage, session: AsyncSession) -> None:
        kinds.add(type(session))
        note(session, message)

    put(3)
    bill.run(until="caught_up")
    assert values(conn) == [1, 2, 3]
    assert kinds == {SQLModelAsyncSession if factory == "sqlmodel" else AsyncSession}


def test_one_session_for_a_transaction_and_none_is_shared(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    """Handlers of one transaction share it. Those of other segments and batches do not."""
    by_batch: dict[Position, set[int]] = {}
    kept: list[Session] = []  # so that no id is given twice
    lock = Lock()
    billing = mp.processor("billing", session=SessionLocal, segments=4, batch_size=5)

    @billing
    def bill(messages: list[RecordedMessage], session: Session, segment: object) -> None:
        for message in messages:
            note(session, message)
        with lock:
            kept.append(session)
            by_batch[messages[0].position] = {id(session)}

    @billing.handler
    def count(messages: list[RecordedMessage], tx: Session) -> None:
        assert len(tx.new) == len(messages), "what the first handler has added"
        by_batch[messages[0].position].add(id(tx))

    put(100, keys=20)
    billing.run(until="caught_up")
    assert sorted(values(conn)) == list(range(1, 101))
    assert [len(ids) for ids in by_batch.values()] == [1] * len(by_batch)
    assert len(set.union(*by_batch.values())) == len(by_batch) > 4


def test_handlers_by_type_share_it(mp: Milepost, conn: Connection) -> None:
    billing = mp.processor("billing", session=SessionLocal)

    @billing.on("Opened")
    def opened(messages: list[RecordedMessage], session: Session) -> None:
        session.add_all(Total(key=message.key, total=0) for message in messages)

    @billing.on("Added")
    def added(messages: list[RecordedMessage], session: Session) -> None:
        for message in messages:
            add_up(session, message)

    numbers = [Message("Added", {"number": n}, key="a") for n in (1, 2)]
    mp.append(conn, Message("Opened", None, key="a"), *numbers)
    billing.run(until="caught_up")
    assert totals(conn) == {"a": 3}


def test_a_failed_attempt_leaves_nothing_in_the_next_session(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    seen: list[int | None] = []

    @mp.processor("billing", session=SessionLocal, retry=Retry(limit=2, first_seconds=0.001))
    def bill(messages: list[RecordedMessage], session: Session) -> None:
        known = session.get(Total, "key-1")
        seen.append(known.total if known else None)
        session.add(known or Total(key="key-1", total=7))
        session.flush()
        if len(seen) < 3:
            raise TimeoutError("after the flush")

    put(1)
    bill.run(until="caught_up")
    assert seen == [None] * 3
    assert totals(conn) == {"key-1": 7}


def test_an_error_of_the_flush_is_the_handler_s_failure(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    """It is found when the handler has returned. The message is set aside, the others are kept;
    retried, the letter is handled through a Session as well."""

    @mp.processor("billing", session=SessionLocal, retry=QUICK, on_failure="skip")
    def bill(messages: list[RecordedMessage], session: Session) -> None:
        for message in messages:
            note(session, message)

    conn.execute("insert into noted (value) values (2)")
    put(3)
    bill.run(until="caught_up")
    assert values(conn) == [2, 1, 3]
    (letter,) = list_dead_letters(conn, DEFAULT_SCHEMA)
    assert "IntegrityError" in letter.error
    assert "noted_value_key" in letter.error
    conn.execute("delete from noted where value = 2")
    request_retry(conn, DEFAULT_SCHEMA, [letter.id])
    bill.run(until="caught_up")
    assert values(conn) == [1, 3, 2]
    assert list_dead_letters(conn, DEFAULT_SCHEMA) == []


def test_an_async_flush_fails_the_same_way(mp: Milepost, conn: Connection, put: Put) -> None:
    @mp.processor("billing", session=SessionLocal, retry=QUICK)
    async def bill(messages: list[RecordedMessage], session: AsyncSession) -> None:
        for message in messages:
            note(session, message)

    conn.execute("insert into noted (value) values (2)")
    put(3)
    with pytest.raises(HandlerFailed, match="noted_value_key"):
        bill.run(until="caught_up")
    assert values(conn) == [2, 1]


def test_a_reset_handler_is_given_a_session(mp: Milepost, conn: Connection, put: Put) -> None:
    @mp.processor("billing", session=SessionLocal)
    def bill(messages: list[RecordedMessage], session: Session) -> None:
        for message in messages:
            note(session, message)

    @bill.on_reset
    def empty(session: Session, to: Position) -> None:
        for each in session.query(Noted):
            session.delete(each)

    put(3)
    bill.run(until="caught_up")
    with conn.transaction():
        bill.reset("beginning", conn)
    assert values(conn) == []
    bill.run(until="caught_up")
    assert values(conn) == [1, 2, 3]


def test_a_session_that_was_kept_reaches_nothing_later(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    kept: list[Session] = []

    @mp.processor("billing", session=SessionLocal)
    def bill(messages: list[RecordedMessage], session: Session) -> None:
        kept.append(session)

    put(1)
    bill.run(until="caught_up")
    with pytest.raises(ResourceClosedError):
        kept[0].get(Total, "key-1")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_appends_and_puts_through_its_session(
    mp: Milepost, conn: Connection, put: Put, is_async: bool
) -> None:
    """In the same transaction: of the failed attempts nothing is left, also not of a savepoint."""
    attempts: list[int] = []

    def bill(message: RecordedMessage, session: Session) -> None:
        attempts.append(1)
        note(session, message)
        mp.append(session, Message("Billed", message.data, topic="bills"))
        mp.append(session, *(Message("Many", n, topic="bills") for n in range(3)))
        mp.put(session, Job("mails", message.data))
        with session.begin_nested() as undone:
            mp.append(session, Message("Undone", None, topic="bills"))
            undone.rollback()
        if len(attempts) < 3:
            raise TimeoutError("after all of it")

    async def bill_async(message: RecordedMessage, session: AsyncSession) -> None:
        attempts.append(1)
        note(session, message)
        await mp.append(session, Message("Billed", message.data, topic="bills"))
        await mp.append(session, *(Message("Many", n, topic="bills") for n in range(3)))
        await mp.put(session, Job("mails", message.data))
        async with session.begin_nested() as undone:
            await mp.append(session, Message("Undone", None, topic="bills"))
            await undone.rollback()
        if len(attempts) < 3:
            raise TimeoutError("after all of it")

    several = Retry(limit=3, first_seconds=0.001)
    options = mp.processor(
        "billing", topics=["default"], session=SessionLocal, handle="message", retry=several
    )
    put(1)
    options(bill_async if is_async else bill).run(until="caught_up")
    assert values(conn) == [1]
    assert [message.type for message in mp.read(topics=["bills"])] == ["Billed", *["Many"] * 3]
    assert conn.execute("select channel from milepost.jobs").fetchall() == [("mails",)]
