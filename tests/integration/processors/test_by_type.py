"""Handlers by message type, in every way in which a processor delivers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import pytest

from milepost import Checkpointing, Message, Milepost, Position, RecordedMessage, Retry, Segment, on
from milepost.db import AsyncConnection, Connection
from milepost.processors.self_checkpointing.reconcile import Report
from milepost.processors.set_aside.dead_letters import list_dead_letters, request_retry
from milepost.sql import DEFAULT_SCHEMA
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("quick_orders")
OPENED, CLOSED, OTHER = "Opened", "Closed", "Other"
ROUNDS = 20
NO_RETRY = Retry(limit=0)
TABLE = "create table seen (n bigint generated always as identity, type text, key text, round int)"
INSERT = "insert into seen (type, key, round) values (%s, %s, %s)"
Append = Callable[..., list[Position]]


@pytest.fixture
def table(conn: Connection) -> None:
    conn.execute(TABLE)


@pytest.fixture
def append(mp: Milepost, conn: Connection) -> Append:
    """Every key is opened and closed in turns, and something that nobody handles lies between."""

    def append(keys: int = 3, rounds: int = ROUNDS) -> list[Position]:
        return mp.append(
            conn,
            *(
                Message(type_, {"round": n}, key=f"key-{k}")
                for n in range(rounds)
                for type_ in (OPENED, OTHER, CLOSED)
                for k in range(keys)
            ),
        )

    return append


@dataclass(slots=True)
class Seen:
    """What was handled without a transaction."""

    rows: list[tuple[str, str | None, int]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def add(self, handler: str, messages: list[RecordedMessage]) -> None:
        assert {message.type for message in messages} == {handler}
        with self.lock:
            self.rows += [row_of(message) for message in messages]


def row_of(message: RecordedMessage) -> tuple[str, str | None, int]:
    return message.type, message.key, message.data["round"]


def in_order(rounds: int = ROUNDS) -> list[tuple[str, int]]:
    """What each key sees."""
    return [(type_, n) for n in range(rounds) for type_ in (OPENED, CLOSED)]


def assert_in_order(rows: list[Any], keys: int = 3, rounds: int = ROUNDS) -> None:
    for k in range(keys):
        assert [(type_, n) for type_, key, n in rows if key == f"key-{k}"] == in_order(rounds)


def rows(conn: Connection) -> list[Any]:
    return conn.execute("select type, key, round from seen order by n").fetchall()


def written(messages: Any, tx: Connection, type_: str) -> None:
    given = messages if isinstance(messages, list) else [messages]
    assert {message.type for message in given} == {type_}
    for message in given:
        tx.execute(INSERT, row_of(message))


class Account:
    """One object for both types."""

    @on(OPENED)
    def open(self, messages: Any, tx: Connection) -> None:
        written(messages, tx, OPENED)

    @on(CLOSED)
    def close(self, messages: Any, *, segment: Segment, tx: Connection) -> None:
        given = messages if isinstance(messages, list) else [messages]
        assert all(segment.holds(message.key) for message in given)
        written(messages, tx, CLOSED)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("handle", ["batch", "message"])
@pytest.mark.parametrize("segments", [None, 4])
@pytest.mark.parametrize("batch_size", [7, 500])
def test_the_methods_of_an_object_handle_each_type_in_the_order_of_the_log(
    mp: Milepost, conn: Connection, append: Append, handle: Any, segments: Any, batch_size: int
) -> None:
    positions = append()
    options: dict[str, Any] = {"handle": handle, "segments": segments, "batch_size": batch_size}
    processor = mp.processor("accounts", **options)(Account())
    processor.run(until="caught_up")
    assert_in_order(rows(conn))
    at = processor.position()
    assert at is not None
    assert at >= positions[-1], "the checkpoint has passed what nobody handles"
    assert processor.caught_up()


@pytest.mark.usefixtures("table")
def test_async_handlers_of_a_processor_share_its_transaction(
    mp: Milepost, conn: Connection, append: Append
) -> None:
    append()
    accounts = mp.processor("accounts")

    @accounts.on(OPENED)
    async def open_(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        for message in messages:
            await tx.execute(INSERT, row_of(message))

    @accounts.on(CLOSED)
    async def close(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        for message in messages:
            await tx.execute(INSERT, row_of(message))

    mp.run(until="caught_up")
    assert_in_order(rows(conn))


@pytest.mark.parametrize(
    "options",
    [{}, {"segments": 4}, {"handle": "message", "concurrency": 4}],
    ids=str,
)
@pytest.mark.parametrize("is_async", [False, True])
def test_at_least_once(mp: Milepost, append: Append, options: Any, is_async: bool) -> None:
    append()
    seen = Seen()
    accounts = mp.processor("accounts", delivery="at_least_once", **options)

    def handler_of(type_: str) -> Callable[..., Any]:
        def handle(messages: Any) -> None:
            seen.add(type_, messages if isinstance(messages, list) else [messages])

        async def handle_async(messages: Any) -> None:
            handle(messages)

        return handle_async if is_async else handle

    for type_ in (OPENED, CLOSED):
        accounts.on(type_)(handler_of(type_))
    accounts.run(until="caught_up")
    assert_in_order(seen.rows)


def test_only_the_handled_types_are_read_and_operators_see_it(
    mp: Milepost, conn: Connection, append: Append, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[RecordedMessage] = []
    append()
    accounts = mp.processor("accounts", delivery="at_least_once")
    accounts.on(OPENED)(lambda messages: read.extend(messages))
    accounts.run(until="caught_up")
    assert len(read) == 3 * ROUNDS
    rows = conn.execute("select types, handled from milepost.processors").fetchall()
    assert rows == [([OPENED], 3 * ROUNDS)]


def test_beside_a_handler_of_every_type(mp: Milepost, append: Append) -> None:
    append(rounds=2)
    whole: list[str] = []
    closed: list[str] = []

    @mp.processor("accounts", delivery="at_least_once")
    def everything(messages: list[RecordedMessage]) -> None:
        whole.extend(message.type for message in messages)

    @everything.on(CLOSED)
    def close(messages: list[RecordedMessage]) -> None:
        closed.extend(message.type for message in messages)

    everything.run(until="caught_up")
    assert (len(whole), closed) == (18, [CLOSED] * 6)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("segments", [None, 4])
def test_a_failure_is_that_of_one_message_and_parks_its_key_alone(
    mp: Milepost, conn: Connection, append: Append, segments: Any
) -> None:
    append()
    accounts = mp.processor("accounts", segments=segments, on_failure="park", retry=NO_RETRY)
    bad = {"key-1"}

    @accounts.on(OPENED)
    def open_(messages: list[RecordedMessage], tx: Connection) -> None:
        written(messages, tx, OPENED)

    @accounts.on(CLOSED)
    def close(messages: list[RecordedMessage], tx: Connection) -> None:
        written(messages, tx, CLOSED)
        if any(message.key in bad and message.data["round"] == 3 for message in messages):
            raise RuntimeError("cannot close")

    accounts.run(until="caught_up")
    done = rows(conn)
    for key in ("key-0", "key-2"):
        assert [(t, n) for t, k, n in done if k == key] == in_order()
    assert [(t, n) for t, k, n in done if k == "key-1"] == [*in_order(3), (OPENED, 3)]
    bad.clear()
    letters = list_dead_letters(conn, DEFAULT_SCHEMA)
    assert {letter.type for letter in letters} == {OPENED, CLOSED}
    request_retry(conn, DEFAULT_SCHEMA, [letters[0].id])
    accounts.run(until="caught_up")
    assert_in_order(rows(conn))


@pytest.mark.usefixtures("table")
def test_a_failure_is_skipped_alone(mp: Milepost, conn: Connection, append: Append) -> None:
    append(rounds=2)
    accounts = mp.processor("accounts", on_failure="skip", retry=NO_RETRY, handle="message")
    accounts.on(OPENED)(lambda message, tx: written(message, tx, OPENED))

    @accounts.on(CLOSED)
    def close(message: RecordedMessage, tx: Connection) -> None:
        raise RuntimeError("cannot close")

    accounts.run(until="caught_up")
    assert [type_ for type_, _, _ in rows(conn)] == [OPENED] * 6
    assert [each.type for each in list_dead_letters(conn, DEFAULT_SCHEMA)] == [CLOSED] * 6


def test_a_dead_letter_that_nobody_handles_any_more_is_kept(
    mp: Milepost, url: str, conn: Connection, append: Append
) -> None:
    append(keys=1, rounds=1)

    def fail(messages: Any) -> None:
        raise RuntimeError("cannot")

    options: Any = {"delivery": "at_least_once", "on_failure": "skip", "retry": NO_RETRY}
    before = mp.processor("accounts", **options)
    before.on(CLOSED)(fail)
    before.run(until="caught_up")
    (letter,) = list_dead_letters(conn, DEFAULT_SCHEMA)
    request_retry(conn, DEFAULT_SCHEMA, [letter.id])
    after = Milepost(url).processor("accounts", **options)
    after.on(OPENED)(print)
    after.run(until="caught_up")
    (kept,) = list_dead_letters(conn, DEFAULT_SCHEMA)
    assert "no handler of type 'Closed'" in kept.error
    assert kept.retry_requested_at is None


def test_replayed_messages_reach_only_the_handlers_that_want_them(
    mp: Milepost, conn: Connection, append: Append
) -> None:
    append(keys=1, rounds=1)
    seen: list[tuple[str, bool]] = []
    accounts = mp.processor("accounts")

    @accounts.on(OPENED)
    def open_(messages: list[RecordedMessage], tx: Connection) -> None:
        seen.extend((message.type, message.replaying) for message in messages)

    @accounts.on(CLOSED, skip_on_replay=True)
    def close(messages: list[RecordedMessage], tx: Connection) -> None:
        seen.extend((message.type, message.replaying) for message in messages)

    accounts.run(until="caught_up")
    accounts.reset("beginning", conn)
    accounts.run(until="caught_up")
    assert seen == [(OPENED, False), (CLOSED, False), (OPENED, True)]


def test_the_methods_of_a_self_checkpointing_object(mp: Milepost, append: Append) -> None:
    class Projection(Checkpointing):
        def __init__(self) -> None:
            self.seen = Seen()
            self.released: list[Position] = []

        @on(OPENED)
        def open(self, messages: list[RecordedMessage]) -> None:
            self.seen.add(OPENED, messages)

        @on(CLOSED)
        async def close(self, messages: list[RecordedMessage]) -> None:
            self.seen.add(CLOSED, messages)

        def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Report:
            self.released.append(requested)
            return requested

    positions = append()
    projection = Projection()
    made = mp.processor("accounts", delivery="at_least_once", segments=2)(projection)
    made.run(until="caught_up")
    assert_in_order(projection.seen.rows)
    assert max(projection.released) >= positions[-1]
    wait_until(made.caught_up)
