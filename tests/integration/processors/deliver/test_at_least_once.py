"""At least once: the effect first, the checkpoint after; an inbox tells what comes again."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

import psycopg
import pytest

from milepost import Message, Milepost, Position, RecordedMessage, Retry
from milepost.checkpoints import CheckpointKey, PostgresCheckpointStore
from milepost.db import Connection
from milepost.processors.deliver.inbox import Inbox
from milepost.sql import DEFAULT_SCHEMA
from tests.integration.processors.conftest import Put

KEY = CheckpointKey("loose")
concurrencies = pytest.mark.parametrize("concurrency", [1, 3])
Handle = Callable[[RecordedMessage], None]


def forget_checkpoint(conn: Connection) -> None:
    """As after a crash that lost every checkpoint that was stored."""
    PostgresCheckpointStore(conn).reset(KEY, Position.BEGINNING)


def refuse_checkpoints(conn: Connection) -> None:
    conn.execute(
        "create function refuse() returns trigger language plpgsql as "
        "$$ begin raise exception 'no checkpoint today'; end $$"
    )
    conn.execute(
        "create trigger refuse before update on milepost.checkpoints "
        "for each row execute function refuse()"
    )


def inbox_ids(conn: Connection) -> list[object]:
    rows = conn.execute("select message_id from milepost.inbox order by transaction_id, position")
    return [row[0] for row in rows]


@concurrencies
def test_what_dies_between_effect_and_checkpoint_is_handled_again(
    mp: Milepost, conn: Connection, put: Put, concurrency: int
) -> None:
    handled: list[Position] = []

    @mp.processor(
        "loose", handle="message", delivery="at_least_once", concurrency=concurrency,
        checkpoint_every=1,
    )  # fmt: skip
    def keep(message: RecordedMessage) -> None:
        handled.append(message.position)

    (position,) = put(1)
    refuse_checkpoints(conn)
    with pytest.raises(psycopg.errors.RaiseException, match="no checkpoint today"):
        keep.run(until="caught_up")
    assert handled == [position]
    assert keep.position() == Position.BEGINNING
    conn.execute("drop trigger refuse on milepost.checkpoints")
    keep.run(until="caught_up")
    assert handled == [position, position]
    assert keep.caught_up()


def test_an_async_handler_and_a_batch_at_a_time_are_equals(mp: Milepost, put: Put) -> None:
    handled: list[Position] = []

    @mp.processor("loose", delivery="at_least_once", batch_size=4)
    async def keep(messages: list[RecordedMessage]) -> None:
        handled.extend(message.position for message in messages)

    positions = put(10)
    keep.run(until="caught_up")
    assert handled == positions


@concurrencies
def test_an_inbox_recognises_what_is_delivered_again(
    mp: Milepost, conn: Connection, put: Put, concurrency: int
) -> None:
    handled: list[Position] = []

    @mp.processor(
        "loose", handle="message", delivery="at_least_once", concurrency=concurrency, inbox=True
    )
    def keep(message: RecordedMessage) -> None:
        handled.append(message.position)

    positions = put(20)
    keep.run(until="caught_up")
    forget_checkpoint(conn)
    later = put(3)
    keep.run(until="caught_up")
    assert sorted(handled) == positions + later
    assert keep.caught_up()


@pytest.mark.parametrize("batch_size", [1, 10])
def test_an_id_that_was_appended_twice_is_handled_once(
    mp: Milepost, conn: Connection, batch_size: int
) -> None:
    handled: list[Position] = []

    @mp.processor(
        "loose", handle="message", delivery="at_least_once", inbox=True, batch_size=batch_size
    )
    def keep(message: RecordedMessage) -> None:
        handled.append(message.position)

    twice, other = Message("Repeated", 1, key="k"), Message("Single", 2, key="k")
    first, second, _ = mp.append(conn, twice, other, twice)
    keep.run(until="caught_up")
    assert handled == [first, second]


def test_an_inbox_keeps_what_was_handled_before_one_failed(mp: Milepost, put: Put) -> None:
    handled: list[int] = []

    @mp.processor(
        "loose", handle="message", delivery="at_least_once", inbox=True,
        retry=Retry(limit=3, first_seconds=0.001),
    )  # fmt: skip
    def keep(message: RecordedMessage) -> None:
        handled.append(message.data["number"])
        if handled.count(4) in (1, 2):
            raise RuntimeError("not at once")

    put(5)
    keep.run(until="caught_up")
    assert handled == [1, 2, 3, 4, 4, 4, 5]


def test_an_inbox_is_pruned_of_what_is_old_and_behind_the_checkpoint(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    processor = mp.processor("loose", handle="message", delivery="at_least_once", inbox=True)(
        lambda _: None
    )
    positions = put(4)
    processor.run(until="caught_up")
    ids = inbox_ids(conn)
    assert len(ids) == 4
    lease = processor.runtime.connections.lease("loose", Event())
    assert Inbox(KEY, lease, DEFAULT_SCHEMA, keep_seconds=3600).prune(positions[-1]) == 0
    assert Inbox(KEY, lease, DEFAULT_SCHEMA, keep_seconds=0).prune(positions[1]) == 2
    assert inbox_ids(conn) == ids[2:]
    assert Inbox(CheckpointKey("other"), lease, DEFAULT_SCHEMA, 0).prune(positions[-1]) == 0
    lease.close()


def test_a_running_processor_prunes_its_inbox(mp: Milepost, conn: Connection, put: Put) -> None:
    processor = mp.processor(
        "loose", handle="message", delivery="at_least_once", inbox=True, inbox_seconds=0
    )(lambda _: None)
    put(4)
    processor.run(until="caught_up")
    assert inbox_ids(conn) == []
