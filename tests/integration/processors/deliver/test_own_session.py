"""A handler that ends its own database session: counted as its failure, unlike a lost server."""

from __future__ import annotations

from typing import Any

import pytest

from milepost import Milepost, RecordedMessage, Retry
from milepost.db import AsyncConnection, Connection
from milepost.errors import HandlerFailed
from milepost.processors.deliver import losses
from milepost.processors.set_aside.dead_letters import list_dead_letters, request_retry
from milepost.runtime import Backoff
from milepost.sql import DEFAULT_SCHEMA as SCHEMA
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave, running
from tests.waiting import wait_until

END = "select pg_terminate_backend(pg_backend_pid())"
BAD = 3
pytestmark = pytest.mark.usefixtures("quick_orders")


@pytest.fixture(autouse=True)
def quick_reconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance waits after each loss, up to 10 s."""
    monkeypatch.setattr(Backoff, "next_seconds", lambda _: 0.01)


def ending(calls: list[int], *, closes: bool = False) -> Any:
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            leave(message, tx)
            if message.data["number"] == BAD:
                calls.append(len(messages))
                tx.close() if closes else tx.execute(END)

    return keep


def ending_async(calls: list[int]) -> Any:
    async def keep(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        for message in messages:
            if message.data["number"] == BAD:
                calls.append(len(messages))
                await tx.execute(END)

    return keep


@pytest.mark.parametrize("segments", [None, 1])
@pytest.mark.parametrize("closes", [False, True])
def test_the_message_is_set_aside_and_the_others_are_handled(
    mp: Milepost, conn: Connection, effects: Effects, put: Put, segments: int | None, closes: bool
) -> None:
    calls: list[int] = []
    processor = mp.processor("ending", retry=Retry(limit=0), on_failure="skip", segments=segments)(
        ending(calls, closes=closes)
    )
    positions = put(5)
    with running(processor):
        wait_until(lambda: processor.position() == positions[-1])
    assert calls == [5] + [1] * (losses.LEAST + 1)
    assert effects.positions() == [p for p in positions if p != positions[BAD - 1]]
    (letter,) = list_dead_letters(conn, SCHEMA)
    assert "the database session was lost" in letter.error
    assert letter.attempts == losses.LEAST + 1


def test_a_coroutine_stops_the_processor_as_any_failure_does(mp: Milepost, put: Put) -> None:
    calls: list[int] = []
    processor = mp.processor("ending", retry=Retry(limit=losses.LEAST + 1))(ending_async(calls))
    positions = put(5)
    with pytest.raises(HandlerFailed, match="the database session was lost") as caught:
        processor.run(until="caught_up")
    assert caught.value.position == str(positions[BAD - 1])
    assert calls == [5] + [1] * (losses.LEAST + 2)


@pytest.mark.parametrize("on_failure", ["skip", "park"])
def test_a_dead_letter_that_ends_the_session_waits_for_the_next_request(
    mp: Milepost, conn: Connection, effects: Effects, put: Put, on_failure: Any
) -> None:
    calls: list[int] = []
    handlers = [ending(calls)]

    @mp.processor("ending", retry=Retry(limit=0), on_failure=on_failure)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        if not handlers:
            raise RuntimeError("no")
        handlers[0](messages, tx)

    handler = handlers.pop()
    put(BAD)
    keep.run(until="caught_up")
    handlers.append(handler)
    letter = list_dead_letters(conn, SCHEMA)[BAD - 1]
    with running(keep):
        request_retry(conn, SCHEMA, [letter.id])
        wait_until(lambda: "session was lost" in list_dead_letters(conn, SCHEMA)[-1].error)
    assert calls == [1] * (losses.LEAST + 1)
