"""A handler that ends its own transaction in SQL is found out, and nothing is retried."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from milepost import Message, Milepost, RecordedMessage, Retry, sql
from milepost.db import AsyncConnection, Connection
from milepost.errors import ConnectionUnusable, TransactionEnded
from milepost.processors.definition import Handle, OnFailure
from milepost.processors.set_aside.dead_letters import list_dead_letters, request_retry
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, Instance, leave_all
from tests.orm import SessionLocal
from tests.waiting import wait_until

SCHEMA = sql.DEFAULT_SCHEMA
FOUND_OUT = "RuntimeError: too late|The next statement was not executed"
INSERT = "insert into effects (transaction_id, position) values (1, 1)"
QUICK = Retry(limit=2, first_seconds=0.001)
endings = pytest.mark.parametrize(
    "statements", [["commit"], ["commit", "begin"], ["commit and chain"], ["end", "select 1"]]
)
pytestmark = pytest.mark.usefixtures("quick_orders")


@endings
@pytest.mark.parametrize("segments", [None, 2])
@pytest.mark.parametrize("on_failure", ["stop", "skip", "park"])
def test_the_processor_stops_and_says_what_was_committed(
    mp: Milepost, conn: Connection, effects: Effects, put: Put,
    statements: list[str], segments: int | None, on_failure: OnFailure,
) -> None:  # fmt: skip
    calls: list[int] = []

    @mp.processor("p", retry=QUICK, segments=segments, on_failure=on_failure)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        calls.append(len(messages))
        leave_all(messages, tx)
        for statement in statements:
            tx.execute(statement)
        raise RuntimeError("too late")

    positions = put(3, keys=1)
    with pytest.raises(TransactionEnded, match=FOUND_OUT) as caught:
        keep.run(until="caught_up")
    assert (caught.value.first, caught.value.last) == (str(positions[0]), str(positions[-1]))
    assert calls == [3], "nothing is tried again that cannot be undone"
    assert effects.positions() == positions
    assert list_dead_letters(conn, SCHEMA) == []
    row = conn.execute("select state, last_error from milepost.processors").fetchone()
    assert row is not None
    assert row[0] == "failed"
    assert "TransactionEnded" in row[1]


@endings
def test_a_coroutine_is_found_out_too(
    mp: Milepost, effects: Effects, put: Put, statements: list[str]
) -> None:
    @mp.processor("p", retry=QUICK)
    async def keep(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        for statement in statements:
            await tx.execute(statement)
        raise RuntimeError("too late")

    put(3)
    with pytest.raises(TransactionEnded, match=FOUND_OUT):
        keep.run(until="caught_up")


def test_one_that_commits_and_returns_is_found_out(
    mp: Milepost, effects: Effects, put: Put
) -> None:
    @mp.processor("p", retry=QUICK)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        tx.execute("commit")

    positions = put(3)
    with pytest.raises(TransactionEnded, match="ended its own transaction in SQL"):
        keep.run(until="caught_up")
    assert effects.positions() == positions


rollbacks = pytest.mark.parametrize(
    "statements",
    [["rollback"], ["abort", "begin"], ["rollback; begin"], ["rollback and chain"]],
)


@rollbacks
@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("segments", [None, 2])
def test_after_a_rollback_nothing_is_committed_by_itself_and_nothing_is_tried_again(
    mp: Milepost, conn: Connection, effects: Effects, put: Put,
    statements: list[str], segments: int | None, fails: bool,
) -> None:  # fmt: skip
    calls: list[int] = []

    @mp.processor("p", retry=QUICK, segments=segments, on_failure="skip")
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        calls.append(len(messages))
        leave_all(messages, tx)
        for statement in statements:
            tx.execute(statement)
        leave_all(messages, tx)
        if fails:
            raise RuntimeError("too late")

    put(3, keys=1)
    with pytest.raises(TransactionEnded, match="count as not handled") as caught:
        keep.run(until="caught_up")
    assert not caught.value.is_committed
    assert calls == [3]
    assert effects.count() == 0
    assert list_dead_letters(conn, SCHEMA) == []


@rollbacks
@pytest.mark.parametrize("handle", ["batch", "message"])
def test_a_coroutine_that_rolls_back_too(
    mp: Milepost, effects: Effects, put: Put, statements: list[str], handle: Handle
) -> None:
    calls: list[object] = []

    @mp.processor("p", retry=QUICK, handle=handle)
    async def keep(given: Any, tx: AsyncConnection) -> None:
        calls.append(given)
        for statement in [*statements, INSERT]:
            await tx.execute(statement)

    put(1)
    with pytest.raises(TransactionEnded, match="count as not handled"):
        keep.run(until="caught_up")
    assert len(calls) == 1
    assert effects.count() == 0


@rollbacks
def test_a_session_that_is_told_to_roll_back_in_sql_too(
    mp: Milepost, effects: Effects, put: Put, statements: list[str]
) -> None:
    calls: list[object] = []

    @mp.processor("p", retry=QUICK, session=SessionLocal)
    def keep(messages: list[RecordedMessage], session: Session) -> None:
        calls.append(messages)
        for statement in [*statements, INSERT]:
            session.execute(text(statement))

    put(1)
    with pytest.raises(TransactionEnded, match="count as not handled"):
        keep.run(until="caught_up")
    assert len(calls) == 1
    assert effects.count() == 0


def test_the_statement_after_the_end_is_refused_even_if_the_handler_catches_that(
    mp: Milepost, effects: Effects, put: Put
) -> None:
    refused: list[Exception] = []

    @mp.processor("p", retry=QUICK)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        tx.execute("rollback")
        for use in (lambda: leave_all(messages, tx), lambda: mp.append(tx, Message("Said", None))):
            try:
                use()
            except ConnectionUnusable as error:
                refused.append(error)

    put(1)
    with pytest.raises(TransactionEnded):
        keep.run(until="caught_up")
    assert len(refused) == 2
    assert [message.type for message in mp.read()] == ["Counted"]
    assert effects.count() == 0


def test_savepoints_stay_legal(mp: Milepost, effects: Effects, put: Put) -> None:
    @mp.processor("p", retry=QUICK)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        tx.execute("savepoint a")
        leave_all(messages, tx)
        tx.execute("rollback to savepoint a")
        tx.execute("release a")
        with suppress(psycopg.errors.DivisionByZero), tx.transaction():
            tx.execute("select 1 / 0")
        leave_all(messages, tx)

    positions = put(3)
    keep.run(until="caught_up")
    assert effects.positions() == positions


@pytest.mark.parametrize("on_failure", ["skip", "park"])
def test_a_retry_of_a_dead_letter_is_found_out(
    mp: Milepost, conn: Connection, effects: Effects, put: Put, on_failure: OnFailure
) -> None:
    statements: list[str] = []

    @mp.processor("p", retry=Retry(limit=0), on_failure=on_failure)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        for statement in statements:
            tx.execute(statement)
        raise RuntimeError("too late")

    (position,) = put(1)
    keep.run(until="caught_up")
    statements.append("commit")
    instance = Instance(keep)
    try:
        request_retry(conn, SCHEMA, [letter.id for letter in list_dead_letters(conn, SCHEMA)])
        wait_until(instance.has_ended)
    finally:
        instance.stop.set()
    assert isinstance(instance.error, TransactionEnded)
    assert (instance.error.first, instance.error.last) == (str(position), str(position))
