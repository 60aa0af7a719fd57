"""Dead letters: retried on request by whoever runs, in the transaction that removes them."""

from __future__ import annotations

import time

import pytest

from milepost import Milepost, Position, RecordedMessage, Retry, sql
from milepost.db import AsyncConnection, Connection
from milepost.processors.set_aside.dead_letters import (
    DeadLetter,
    dead_letter,
    drop,
    list_dead_letters,
    request_retry,
)
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave, leave_all, running
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.usefixtures("quick_orders"),
]
SCHEMA = sql.DEFAULT_SCHEMA
NEVER_AGAIN = Retry(limit=0)


class Moody:
    """A handler that fails on the message with number 2 until it is mended."""

    def __init__(self) -> None:
        self.is_mended = False
        self.seen_inside: list[int] = []

    def __call__(self, messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        if not self.is_mended and any(message.data["number"] == 2 for message in messages):
            raise RuntimeError("not in the mood")
        self.seen_inside.append(len(list_dead_letters(tx, SCHEMA)))


def set_aside_one(mp: Milepost, put: Put, handler: object) -> list[Position]:
    positions = put(3)
    mp.processor("moody", retry=NEVER_AGAIN, on_failure="skip")(handler)
    mp.processors["moody"].run(until="caught_up")
    return positions


def the_one(conn: Connection) -> DeadLetter:
    (found,) = list_dead_letters(conn, SCHEMA, "moody")
    return found


def test_a_retry_handles_the_message_and_removes_the_dead_letter_in_one_transaction(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    moody = Moody()
    positions = set_aside_one(mp, put, moody)
    letter = the_one(conn)
    assert (letter.at, letter.error) == (positions[1], "RuntimeError: not in the mood")
    moody.is_mended = True
    moody.seen_inside.clear()
    with running(mp.processors["moody"]):
        assert request_retry(conn, SCHEMA, [letter.id]) == 1
        effects.wait_for(3)
    assert effects.positions() == [positions[0], positions[2], positions[1]]
    assert list_dead_letters(conn, SCHEMA) == []
    assert moody.seen_inside == [0], "its own dead letter was still there as it was handled"
    assert mp.processors["moody"].position() == positions[2]


def test_a_retry_that_fails_keeps_the_dead_letter_and_counts(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    moody = Moody()
    positions = set_aside_one(mp, put, moody)
    letter = the_one(conn)
    with running(mp.processors["moody"]):
        request_retry(conn, SCHEMA, [letter.id])
        wait_until(lambda: the_one(conn).attempts == letter.attempts + 1)
    again = the_one(conn)
    assert again.retry_requested_at is None
    assert again.failed_at > letter.failed_at
    assert effects.positions() == [positions[0], positions[2]]


def test_an_effect_whose_dead_letter_cannot_be_removed_does_not_happen(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    moody = Moody()
    positions = set_aside_one(mp, put, moody)
    conn.execute(
        "create function refuse() returns trigger language plpgsql as "
        "$$ begin raise exception 'it must stay'; end $$"
    )
    conn.execute(
        "create constraint trigger refuse after delete on milepost.dead_letters "
        "deferrable initially deferred for each row execute function refuse()"
    )
    moody.is_mended = True
    with running(mp.processors["moody"]):
        request_retry(conn, SCHEMA, [the_one(conn).id])
        wait_until(lambda: "it must stay" in the_one(conn).error)
    assert effects.positions() == [positions[0], positions[2]]


def test_two_instances_handle_a_retried_message_once(
    url: str, mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    moody = Moody()
    positions = set_aside_one(mp, put, moody)

    def slowly(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        time.sleep(0.2)

    second = Milepost(url)
    third = Milepost(url)
    options = {"on_failure": "skip", "retry": NEVER_AGAIN}
    instances = [
        other.processor("moody", **options)(slowly)  # type: ignore[arg-type]  # as above
        for other in (second, third)
    ]
    with running(*instances):
        wait_until(lambda: conn.execute("select state from milepost.processors").fetchone())
        request_retry(conn, SCHEMA, [the_one(conn).id])
        wait_until(lambda: not list_dead_letters(conn, SCHEMA))
        more = put(1)
        effects.wait_for(4)
    assert effects.positions() == [positions[0], positions[2], positions[1], *more]


def test_an_async_handler_gets_its_retries_too(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    is_mended = False

    async def moody(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        for message in messages:
            if message.data["number"] == 2 and not is_mended:
                raise RuntimeError("not in the mood")
            await tx.execute(
                "insert into effects (transaction_id, position) values (%s, %s)",
                [message.position.transaction_id, message.position.position],
            )

    positions = set_aside_one(mp, put, moody)
    is_mended = True
    with running(mp.processors["moody"]):
        request_retry(conn, SCHEMA, [the_one(conn).id])
        effects.wait_for(3)
    assert effects.positions() == [positions[0], positions[2], positions[1]]
    assert list_dead_letters(conn, SCHEMA) == []


def test_a_retry_waits_for_a_processor_that_runs(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    moody = Moody()
    set_aside_one(mp, put, moody)
    request_retry(conn, SCHEMA, [the_one(conn).id])
    moody.is_mended = True
    mp.processors["moody"].run(until="caught_up")
    assert effects.count() == 3
    assert list_dead_letters(conn, SCHEMA) == []


def test_a_dropped_dead_letter_is_gone(mp: Milepost, conn: Connection, put: Put) -> None:
    def fail(messages: list[RecordedMessage], tx: Connection) -> None:
        raise RuntimeError("always")

    set_aside_one(mp, put, fail)
    letters = list_dead_letters(conn, SCHEMA)
    assert len(letters) == 3
    assert dead_letter(conn, SCHEMA, letters[0].id) == letters[0]
    assert drop(conn, SCHEMA, [letters[0].id, letters[1].id]) == 2
    assert list_dead_letters(conn, SCHEMA) == [letters[2]]
    assert request_retry(conn, SCHEMA, [letters[0].id]) == 0


def test_an_at_least_once_retry_removes_the_dead_letter(
    url: str, mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    is_mended = False

    @mp.processor(
        "moody", handle="message", delivery="at_least_once", concurrency=2,
        retry=NEVER_AGAIN, on_failure="skip",
    )  # fmt: skip
    def keep(message: RecordedMessage) -> None:
        if message.data["number"] == 2 and not is_mended:
            raise RuntimeError("not in the mood")
        with Milepost(url).connect() as own:
            leave(message, own)

    positions = put(3)
    keep.run(until="caught_up")
    assert sorted(effects.positions()) == [positions[0], positions[2]]
    is_mended = True
    with running(keep):
        request_retry(conn, SCHEMA, [the_one(conn).id])
        wait_until(lambda: not list_dead_letters(conn, SCHEMA))
    assert sorted(effects.positions()) == positions
