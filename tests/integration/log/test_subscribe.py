"""Handlers that are called in the transaction that appends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from milepost import Checkpointing, Message, Milepost, Position, RecordedMessage, Segment, Trigger
from milepost.db import AsyncConnection, Connection
from milepost.errors import ConnectionUnusable
from milepost.log.append import COPY_FROM


@pytest.fixture
def table(conn: Connection) -> Callable[[], int]:
    """How many rows the subscribers have left, as others see it."""
    conn.execute("create table left_behind (position bigint)")

    def count() -> int:
        row = conn.execute("select count(*) from left_behind").fetchone()
        assert row is not None
        return int(row[0])

    return count


def leave(messages: list[RecordedMessage], conn: Connection) -> None:
    for message in messages:
        conn.execute("insert into left_behind values (%s)", [message.position.position])


@pytest.mark.parametrize("count", [1, 5, COPY_FROM + 1])
def test_a_subscriber_sees_what_a_reader_will_see(
    mp: Milepost, conn: Connection, count: int
) -> None:
    seen: list[RecordedMessage] = []
    mp.subscribe(lambda messages: seen.extend(messages))
    data = {"tuple": (1, 2), "text": "Ü"}  # as JSON it comes back as a list
    positions = mp.append(conn, *(Message("Counted", data, key=f"k{n}") for n in range(count)))
    assert seen == list(mp.read())
    assert [message.position for message in seen] == positions
    assert seen[0].data["tuple"] == [1, 2]


def test_it_commits_and_rolls_back_with_the_append(
    mp: Milepost, url: str, conn: Connection, table: Callable[[], int]
) -> None:
    mp.subscribe(leave)
    with mp.connect() as other:
        with other.transaction():
            mp.append(other, Message("Counted", 1))
            assert table() == 0
        assert table() == 1
        with other.transaction(force_rollback=True):
            mp.append(other, Message("Counted", 2))
    assert table() == 1


def test_without_an_open_transaction_append_and_subscribers_are_one(
    mp: Milepost, conn: Connection, table: Callable[[], int]
) -> None:
    mp.subscribe(leave)

    @mp.subscribe
    def refuse(messages: list[RecordedMessage]) -> None:
        if messages[0].data == "bad":
            raise ValueError("refused")

    mp.append(conn, Message("Counted", "good"))
    with pytest.raises(ValueError, match="refused"):
        mp.append(conn, Message("Counted", "bad"))
    assert table() == 1
    assert [message.data for message in mp.read()] == ["good"]


def test_a_caller_who_catches_what_a_subscriber_raised_keeps_neither(
    mp: Milepost, conn: Connection, table: Callable[[], int]
) -> None:
    mp.subscribe(leave)
    mp.subscribe(lambda _: 1 / 0)
    with conn.transaction():
        with pytest.raises(ZeroDivisionError):
            mp.append(conn, Message("Counted", 1))
        conn.execute("insert into left_behind values (7)")
    assert table() == 1
    assert list(mp.read()) == []


def test_a_transaction_that_psycopg_opened_stays_the_callers_to_commit(
    mp: Milepost, url: str, conn: Connection, table: Callable[[], int]
) -> None:
    mp.subscribe(leave)
    with psycopg.connect(url) as other:
        mp.append(other, Message("Counted", 1))
        assert table() == 0
        other.rollback()
        mp.append(other, Message("Counted", 2))
        other.commit()
    assert table() == 1
    assert [message.data for message in mp.read()] == [2]


def test_an_error_of_the_database_that_a_subscriber_hides_is_not_committed(
    mp: Milepost, conn: Connection
) -> None:
    @mp.subscribe
    def hide(messages: list[RecordedMessage], conn: Connection) -> None:
        with pytest.raises(psycopg.errors.UndefinedTable):
            conn.execute("select from nowhere")

    with pytest.raises(ConnectionUnusable, match="caught a database error"):
        mp.append(conn, Message("Counted", 1))
    assert list(mp.read()) == []


def test_only_what_was_selected_is_handed_over_in_one_call(mp: Milepost, conn: Connection) -> None:
    calls: dict[str, list[list[Any]]] = {"topics": [], "types": [], "both": []}

    def noting(name: str) -> Callable[[list[RecordedMessage]], None]:
        return lambda messages: calls[name].append([message.data for message in messages])

    mp.subscribe(noting("topics"), topics=["orders"])
    mp.subscribe(noting("types"), types=["Placed"])
    mp.subscribe(noting("both"), topics=["orders"], types=["Placed"])
    mp.append(
        conn,
        Message("Placed", 1, topic="orders"),
        Message("Placed", 2),
        Message("Paid", 3, topic="orders"),
    )
    mp.append(conn, Message("Other", 4))
    assert calls == {"topics": [[1, 3]], "types": [[1, 2]], "both": [[1]]}


def test_a_text_where_a_list_is_meant_is_refused(mp: Milepost) -> None:
    with pytest.raises(ValueError, match=r"topics is 'orders'.*\['orders'\]"):
        mp.subscribe(leave, topics="orders")


def test_a_subscriber_may_append_more(mp: Milepost, conn: Connection) -> None:
    @mp.subscribe
    def follow(messages: list[RecordedMessage], conn: Connection) -> None:
        for message in messages:
            if message.data:
                mp.append(conn, Message("Counted", message.data - 1))

    mp.append(conn, Message("Counted", 2))
    assert [message.data for message in mp.read()] == [2, 1, 0]


@pytest.mark.parametrize("count", [1, COPY_FROM + 1])
def test_coroutines_subscribe_and_append_alike(
    mp: Milepost, url: str, table: Callable[[], int], count: int
) -> None:
    @mp.subscribe
    async def leave_async(messages: list[RecordedMessage], conn: AsyncConnection) -> None:
        for message in messages:
            await conn.execute("insert into left_behind values (%s)", [message.position.position])

    async def appending(*, rolls_back: bool) -> list[Position]:
        async with await psycopg.AsyncConnection.connect(url) as conn:
            messages = [Message("Counted", n) for n in range(count)]
            positions = await mp.append(conn, *messages)
            if rolls_back:
                await conn.rollback()
            return positions

    positions = asyncio.run(appending(rolls_back=False))
    asyncio.run(appending(rolls_back=True))
    assert table() == count
    assert [message.position for message in mp.read()] == positions


def test_what_an_async_subscriber_raises_undoes_the_append(mp: Milepost, url: str) -> None:
    @mp.subscribe
    async def refuse(messages: list[RecordedMessage]) -> None:
        raise ValueError("refused")

    async def appending() -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
            await mp.append(conn, Message("Counted", 1))

    with pytest.raises(ValueError, match="refused"):
        asyncio.run(appending())
    assert list(mp.read()) == []


def test_a_subscriber_of_the_other_colour_is_refused_before_anything_is_written(
    mp: Milepost, url: str, conn: Connection
) -> None:
    @mp.subscribe
    async def coloured(messages: list[RecordedMessage]) -> None: ...

    with pytest.raises(TypeError, match=r"is async def.*a plain connection.*Nothing was written"):
        mp.append(conn, Message("Counted", 1))
    assert list(mp.read()) == []


def test_a_plain_subscriber_is_refused_on_an_async_connection(mp: Milepost, url: str) -> None:
    mp.subscribe(leave, types=["Wanted"])

    async def appending(kind: str) -> None:
        async with await psycopg.AsyncConnection.connect(url) as conn:
            await mp.append(conn, Message(kind, 1))

    asyncio.run(appending("Other"))
    with pytest.raises(TypeError, match=r"is def.*an async connection.*Nothing was written"):
        asyncio.run(appending("Wanted"))
    assert [message.type for message in mp.read()] == ["Other"]


def test_a_class_is_refused(mp: Milepost) -> None:
    class Handler:
        def __call__(self, messages: list[RecordedMessage]) -> None: ...

    with pytest.raises(TypeError, match=r"Handler is a class.*Pass an instance"):
        mp.subscribe(Handler)


class Model(Checkpointing):
    """Counts, and notes every callback that fires."""

    def __init__(self) -> None:
        self.handled = 0
        self.callbacks: list[str] = []

    def __call__(self, messages: list[RecordedMessage]) -> None:
        self.handled += len(messages)

    def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
        self.callbacks.append("claimed")

    def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Position:
        self.callbacks.append("advanced")
        return requested

    def on_segment_released(self, segment: Segment, up_to: Position) -> Position:
        self.callbacks.append("released")
        return up_to

    def on_segment_lost(self, segment: Segment) -> None:
        self.callbacks.append("lost")


def test_a_self_checkpointing_handler_is_a_plain_one_here_and_its_callbacks_never_fire(
    mp: Milepost, conn: Connection
) -> None:
    model = mp.subscribe(Model())
    mp.append(conn, Message("Counted", 1), Message("Counted", 2))
    with conn.transaction():
        mp.append(conn, Message("Counted", 3))
    assert (model.handled, model.callbacks) == (3, [])
    assert conn.execute("select count(*) from milepost.checkpoints").fetchone() == (0,)


@pytest.mark.parametrize("name", ["trigger", "segment"])
def test_asking_for_a_trigger_or_a_segment_fails_when_it_subscribes(
    mp: Milepost, conn: Connection, name: str
) -> None:
    def with_trigger(messages: list[RecordedMessage], trigger: Trigger) -> None: ...
    def with_segment(messages: list[RecordedMessage], segment: Segment | None = None) -> None: ...

    handler = with_trigger if name == "trigger" else with_segment
    with pytest.raises(TypeError, match=rf"has a parameter {name}.*without a checkpoint"):
        mp.subscribe(handler)
    mp.append(conn, Message("Counted", 1))  # and it has not subscribed


def test_what_others_append_is_not_seen(mp: Milepost, url: str, conn: Connection) -> None:
    """Only appends of this Milepost: another process, or SQL, knows nothing of a Python handler."""
    seen: list[RecordedMessage] = []
    mp.subscribe(seen.extend)
    Milepost(url).append(conn, Message("Counted", 1))
    assert seen == []
