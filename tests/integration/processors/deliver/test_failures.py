"""A handler that fails: rolled back, found, retried, and then stopped at or set aside."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from milepost import Message, Milepost, Position, RecordedMessage, Retry
from milepost.db import AsyncConnection, Connection
from milepost.errors import HandlerFailed, InvalidMessage
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave, leave_all, running
from tests.waiting import wait_until

QUICK = Retry(limit=2, first_seconds=0.001, longest_seconds=0.01)
NEVER_AGAIN = Retry(limit=0)


def dead_letters(conn: Connection) -> list[Any]:
    rows = conn.execute(
        "select transaction_id, position, error, traceback, attempts from milepost.dead_letters "
        "order by id"
    ).fetchall()
    return [(Position(*row[:2]), *row[2:]) for row in rows]


def test_a_failed_batch_is_rolled_back_and_handled_one_by_one(
    mp: Milepost, effects: Effects, put: Put
) -> None:
    calls: list[list[int]] = []

    @mp.processor("failing")
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        calls.append([message.data["number"] for message in messages])
        leave_all(messages, tx)
        if len(messages) > 1:
            raise RuntimeError("too many at once")

    positions = put(4)
    keep.run(until="caught_up")
    assert calls == [[1, 2, 3, 4], [1], [2], [3], [4]]
    assert effects.positions() == positions


def test_a_message_is_retried_as_often_as_the_policy_says_and_no_more(
    mp: Milepost, effects: Effects, put: Put
) -> None:
    tried: list[int] = []

    @mp.processor("failing", handle="message", retry=Retry(limit=4, first_seconds=0.001))
    def keep(message: RecordedMessage, tx: Connection) -> None:
        leave(message, tx)
        if message.data["number"] == 2:
            tried.append(message.data["number"])
            raise RuntimeError("no twos")

    positions = put(3)
    with pytest.raises(HandlerFailed) as caught:
        keep.run(until="caught_up")
    assert caught.value.attempts == 5
    assert len(tried) == 6, "once in the batch, then the attempts of its own"
    assert keep.position() == positions[0]
    assert effects.positions() == positions[:1]


def test_a_message_that_succeeds_at_a_retry_is_handled_once(
    mp: Milepost, effects: Effects, put: Put
) -> None:
    failures = [RuntimeError("not yet"), RuntimeError("not yet"), RuntimeError("not yet")]

    @mp.processor("failing", retry=QUICK)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        if failures:
            raise failures.pop()

    positions = put(5)
    keep.run(until="caught_up")
    assert effects.positions() == positions
    assert not failures


def test_an_async_handler_fails_as_any_other(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    @mp.processor("failing", handle="message", retry=QUICK, on_failure="skip")
    async def keep(message: RecordedMessage, tx: AsyncConnection) -> None:
        position = message.position
        await tx.execute(
            "insert into effects (transaction_id, position) values (%s, %s)",
            [position.transaction_id, position.position],
        )
        if message.data["number"] == 2:
            raise RuntimeError("no twos")

    positions = put(3)
    keep.run(until="caught_up")
    assert effects.positions() == [positions[0], positions[2]]
    assert [(row[0], row[1], row[3]) for row in dead_letters(conn)] == [
        (positions[1], "RuntimeError: no twos", 3)
    ]


def test_an_async_handler_stops_its_processor_before_the_message(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    @mp.processor("failing", retry=QUICK)
    async def keep(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        if any(message.data["number"] == 2 for message in messages):
            raise RuntimeError("no twos")

    positions = put(3)
    with pytest.raises(HandlerFailed, match="no twos"):
        keep.run(until="caught_up")
    assert keep.position() == positions[0]


def test_a_dead_letter_that_cannot_be_kept_leaves_the_checkpoint_before_its_message(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    conn.execute(
        "create function refuse() returns trigger language plpgsql as "
        "$$ begin raise exception 'no room for dead letters'; end $$"
    )
    conn.execute(
        "create trigger refuse before insert on milepost.dead_letters "
        "for each row execute function refuse()"
    )

    @mp.processor("failing", retry=NEVER_AGAIN, on_failure="skip")
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        if any(message.data["number"] == 2 for message in messages):
            raise RuntimeError("no twos")

    positions = put(3)
    with pytest.raises(psycopg.errors.RaiseException, match="no room for dead letters"):
        keep.run(until="caught_up")
    assert keep.position() == positions[0]
    assert dead_letters(conn) == []


@pytest.mark.parametrize("text", ["NUL \0 inside", "half a character \udc80"])
def test_an_error_that_text_cannot_hold_is_set_aside_all_the_same(
    mp: Milepost, conn: Connection, put: Put, text: str
) -> None:
    @mp.processor("failing", retry=QUICK, on_failure="skip")
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        raise RuntimeError(text)

    positions = put(1)
    keep.run(until="caught_up")
    assert keep.position() == positions[0]
    ((position, error, traceback, attempts),) = dead_letters(conn)
    assert (position, attempts) == (positions[0], 3)
    assert error.startswith("RuntimeError: ")
    assert error in traceback


def test_an_error_that_text_cannot_hold_ends_the_processor_as_any_other(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    @mp.processor("failing", retry=QUICK)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        raise RuntimeError("NUL \0 inside")

    put(1)
    with pytest.raises(HandlerFailed, match="NUL"):
        keep.run(until="caught_up")
    assert conn.execute("select state from milepost.processors").fetchone() == ("failed",)


def test_a_handler_cannot_commit_on_its_own(mp: Milepost, effects: Effects, put: Put) -> None:
    @mp.processor("failing", retry=NEVER_AGAIN)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        tx.commit()

    put(3)
    with pytest.raises(HandlerFailed, match=r"commit\(\) forbidden"):
        keep.run(until="caught_up")
    assert keep.position() == Position.BEGINNING
    assert effects.count() == 0


def test_a_handler_that_hides_an_error_of_its_transaction_has_failed(
    mp: Milepost, effects: Effects, put: Put
) -> None:
    """The server answers the COMMIT of a failed transaction with a rollback and no error."""

    @mp.processor("failing", retry=NEVER_AGAIN)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        with pytest.raises(psycopg.errors.UndefinedTable):
            tx.execute("select * from nowhere")

    put(3)
    with pytest.raises(HandlerFailed, match="transaction"):
        keep.run(until="caught_up")
    assert keep.position() == Position.BEGINNING
    assert effects.count() == 0


def test_an_async_handler_that_hides_an_error_of_its_transaction_has_failed(
    mp: Milepost, put: Put
) -> None:
    @mp.processor("failing", retry=NEVER_AGAIN)
    async def keep(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        with pytest.raises(psycopg.errors.UndefinedTable):
            await tx.execute("select * from nowhere")

    put(3)
    with pytest.raises(HandlerFailed, match="transaction"):
        keep.run(until="caught_up")
    assert keep.position() == Position.BEGINNING


def test_an_error_of_ours_that_a_handler_causes_is_its_own_failure(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    @mp.processor("failing", types=["Counted"], retry=NEVER_AGAIN, on_failure="skip")
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            leave(message, tx)
            bad = float("nan") if message.data["number"] == 2 else 0.0
            mp.append(tx, Message("Answered", bad))

    positions = put(3)
    keep.run(until="caught_up")
    assert effects.positions() == [positions[0], positions[2]]
    ((position, error, _, _),) = dead_letters(conn)
    assert position == positions[1]
    assert InvalidMessage.__name__ in error


def test_a_handler_that_returns_a_coroutine_by_mistake_has_failed(mp: Milepost, put: Put) -> None:
    async def forgotten() -> None:
        raise AssertionError("never awaited")

    @mp.processor("failing", retry=NEVER_AGAIN)
    def keep(messages: list[RecordedMessage], tx: Connection) -> Any:
        return forgotten()

    put(1)
    with pytest.raises(HandlerFailed, match="async def"):
        keep.run(until="caught_up")
    assert keep.position() == Position.BEGINNING


def test_what_a_handler_sets_on_its_connection_does_not_mislead_the_processor(
    mp: Milepost, effects: Effects, put: Put
) -> None:
    @mp.processor("failing", batch_size=1, retry=NEVER_AGAIN)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        tx.row_factory = dict_row
        leave_all(messages, tx)

    positions = put(3)
    keep.run(until="caught_up")
    assert effects.positions() == positions


def test_a_commit_that_fails_skips_nothing_in_the_same_process(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    """A deferred constraint fails at the commit, when the checkpoint was stored long before."""
    conn.execute("create table once (n integer unique deferrable initially deferred)")
    commits_to_spoil = [1, 2]
    calls: list[list[int]] = []

    @mp.processor("failing", batch_size=2, retry=QUICK, poll_seconds=0.05)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        calls.append([message.data["number"] for message in messages])
        leave_all(messages, tx)
        if commits_to_spoil:
            commits_to_spoil.pop()
            tx.execute("insert into once values (1), (1)")

    positions = put(6)
    with running(keep):
        effects.wait_for(6)
        positions += put(3)
        effects.wait_for(9)
    assert effects.positions() == positions
    # One by one from the very message on, without a conflict with what it remembers.
    assert calls == [[1, 2], [1], [1], [2], [3, 4], [5, 6], [1, 2], [3]]


def test_a_stop_ends_the_wait_before_a_retry(mp: Milepost, conn: Connection, put: Put) -> None:
    @mp.processor("failing", retry=Retry(first_seconds=3600, longest_seconds=3600))
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        raise RuntimeError("come back in an hour")

    put(1)
    with running(keep) as (instance,):
        wait_until(
            lambda: (
                conn.execute("select state from milepost.processors").fetchone() == ("retrying",)
            )
        )
        instance.stop.set()
        assert instance.ends() is None
    assert keep.position() == Position.BEGINNING
