"""A handler that commits its own transaction and then fails is found out."""

from __future__ import annotations

import pytest

from milepost import Milepost, RecordedMessage, Retry, sql
from milepost.db import AsyncConnection, Connection
from milepost.errors import HandlerFailed, TransactionEnded
from milepost.processors.definition import OnFailure
from milepost.processors.set_aside.dead_letters import list_dead_letters, request_retry
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, Instance, leave_all
from tests.waiting import wait_until

SCHEMA = sql.DEFAULT_SCHEMA
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
    with pytest.raises(TransactionEnded, match="RuntimeError: too late") as caught:
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
    with pytest.raises(TransactionEnded, match="RuntimeError: too late"):
        keep.run(until="caught_up")


def test_one_that_commits_and_returns_is_found_out(
    mp: Milepost, effects: Effects, put: Put
) -> None:
    @mp.processor("p", retry=QUICK)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        tx.execute("commit")

    positions = put(3)
    with pytest.raises(TransactionEnded, match="ended the transaction in SQL"):
        keep.run(until="caught_up")
    assert effects.positions() == positions


def test_one_that_rolls_back_has_failed_as_any_other(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    @mp.processor("p", retry=QUICK)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        tx.execute("rollback")
        raise RuntimeError("nothing happened")

    put(1)
    with pytest.raises(HandlerFailed, match="nothing happened"):
        keep.run(until="caught_up")
    assert effects.count() == 0


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
