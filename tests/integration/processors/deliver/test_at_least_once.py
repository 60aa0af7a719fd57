"""At least once: the effect first, the checkpoint after."""

from __future__ import annotations

import psycopg
import pytest

from milepost import Milepost, Position, RecordedMessage
from milepost.db import Connection
from tests.integration.processors.conftest import Put

concurrencies = pytest.mark.parametrize("concurrency", [1, 3])


def refuse_checkpoints(conn: Connection) -> None:
    conn.execute(
        "create function refuse() returns trigger language plpgsql as "
        "$$ begin raise exception 'no checkpoint today'; end $$"
    )
    conn.execute(
        "create trigger refuse before update on milepost.checkpoints "
        "for each row execute function refuse()"
    )


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
