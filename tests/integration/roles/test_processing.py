"""Processors under a role that may process, and write their own effects, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from milepost import (
    Checkpointing,
    Message,
    Milepost,
    Position,
    RecordedMessage,
    Retry,
    Segment,
    Trigger,
)
from milepost.db import AsyncConnection, Connection
from milepost.errors import HandlerFailed, SegmentsGivenBack
from milepost.processors.segments import operations
from milepost.processors.set_aside import dead_letters
from milepost.runtime import Timing
from milepost.sql import LogOrder
from tests.integration.processors.running import Instance, running
from tests.integration.processors.set_aside.picky import TABLE, Picky, Table
from tests.roles import Roles
from tests.waiting import wait_until

SCHEMA = "milepost"
INSERT = "insert into seen (key, n) values (%s, %s)"
Append = Callable[..., list[Position]]


@pytest.fixture
def order() -> LogOrder:
    """What a role needs to read each of the orders is tested with the log."""
    return "append"


@pytest.fixture
def table(mp: Milepost, conn: Connection) -> Table:
    conn.execute(TABLE)
    return Table(mp, conn)


@pytest.fixture
def url_to_process(roles: Roles, table: Table) -> str:
    url = roles.make("process")
    roles.run("grant insert on table seen to {}", url)
    return url


@pytest.fixture
def processing(url_to_process: str) -> Milepost:
    return Milepost(url_to_process)


@pytest.fixture
def timing() -> Timing:
    return Timing(orders_seconds=0.05)


def test_a_plain_processor(processing: Milepost, table: Table) -> None:
    @processing.processor("plain", start_from="beginning")
    def plain(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            tx.execute(INSERT, [message.key, message.data["n"]])

    table.append(("a", 1), ("b", 2))
    plain.run("caught_up")
    last = table.append(("a", 3))[-1]
    plain.run("caught_up")
    assert table.seen() == [("a", 1), ("b", 2), ("a", 3)]
    position = plain.position()
    assert position is not None
    assert position >= last


def test_a_processor_of_coroutines_that_starts_at_the_end(
    processing: Milepost, table: Table
) -> None:
    @processing.processor("async", start_from="end", handle="message")
    async def handle(message: RecordedMessage, tx: AsyncConnection) -> None:
        await tx.execute(INSERT, [message.key, message.data["n"]])

    table.append(("a", 1))
    handle.run("caught_up")
    table.append(("a", 2))
    handle.run("caught_up")
    assert table.seen() == [("a", 2)]


def test_an_at_least_once_processor(processing: Milepost, table: Table) -> None:
    seen: list[int] = []

    @processing.processor("loose", delivery="at_least_once")
    def handle(messages: list[RecordedMessage]) -> None:
        seen.extend(message.data["n"] for message in messages)

    table.append(("a", 1), ("b", 2))
    handle.run("caught_up")
    assert seen == [1, 2]


def test_a_concurrent_processor_sets_aside_what_fails(processing: Milepost, table: Table) -> None:
    @processing.processor(
        "concurrent", delivery="at_least_once", handle="message", concurrency=3,
        on_failure="skip", retry=Retry(limit=0),
    )  # fmt: skip
    def handle(message: RecordedMessage) -> None:
        if message.key == "bad":
            raise ValueError("a bad one")

    table.append(("a", 1), ("bad", 2), ("b", 3))
    handle.run("caught_up")
    assert [letter.key for letter in dead_letters.list_dead_letters(table.conn, SCHEMA)] == ["bad"]


@pytest.mark.parametrize("segments", [None, 2])
def test_dead_letters_are_set_aside_and_retried(
    url_to_process: str, processing: Milepost, table: Table, segments: int | None
) -> None:
    picky = Picky(url_to_process, disliked={"bad"})
    processor = picky.processor(processing, on_failure="skip", segments=segments)
    table.append(("a", 1), ("bad", 2), ("b", 3))
    processor.run("caught_up")
    letters = dead_letters.list_dead_letters(table.conn, SCHEMA)
    assert [letter.key for letter in letters] == ["bad"]
    with running(processor):  # fails once more, then is handled
        dead_letters.request_retry(table.conn, SCHEMA, [letters[0].id])
        wait_until(lambda: dead_letters.list_dead_letters(table.conn, SCHEMA)[0].attempts > 1)
        picky.disliked.clear()
        dead_letters.request_retry(table.conn, SCHEMA, [letters[0].id])
        wait_until(table.is_empty)
    assert ("bad", 2) in table.seen()


@pytest.mark.parametrize("segments", [None, 2])
def test_keys_are_parked_and_retried(
    url_to_process: str, processing: Milepost, table: Table, segments: int | None
) -> None:
    picky = Picky(url_to_process, disliked={"bad"})
    processor = picky.processor(processing, segments=segments)
    table.append(("a", 1), ("bad", 1), ("bad", 2), ("b", 1))
    processor.run("caught_up")
    table.append(("bad", 3))
    processor.run("caught_up")
    assert (table.parked(), len(table.letters())) == (["bad"], 3)
    with running(processor):
        table.retry("bad")
        wait_until(lambda: dead_letters.list_dead_letters(table.conn, SCHEMA)[0].attempts > 1)
        picky.disliked.clear()
        table.retry("bad")
        wait_until(table.is_empty)
    assert table.seen_of("bad") == [1, 2, 3]


def test_segments_are_shared_split_merged_and_replayed(processing: Milepost, table: Table) -> None:
    """Operators split, merge and reset; the instances follow with their own rights alone."""
    replayed: set[int] = set()

    @processing.processor("cut", segments=4, poll_seconds=0.05)
    def cut(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            tx.execute(INSERT, [message.key, message.data["n"]])
            if message.replaying:
                replayed.add(message.data["n"])

    def instances() -> int:
        row = table.conn.execute("select count(*) from milepost.instances").fetchone()
        return 0 if row is None else int(row[0])

    first = table.append(*((f"k{n}", n) for n in range(20)))
    key = cut.definition.options.key
    with running(cut, cut):
        wait_until(lambda: instances() == 2 and len(table.seen()) == 20)
        operations.merge(table.mp.connect, SCHEMA, key)
        operations.split(table.mp.connect, SCHEMA, key)
        table.append(*((f"k{n}", n) for n in range(20, 40)))
        wait_until(lambda: len(table.seen()) == 40)
        with table.mp.connect() as tx:
            table.mp.processor("cut", segments=4)(cut.handler.processor.definition.handler).reset(
                first[9], tx
            )
        wait_until(lambda: len(table.seen()) == 70)
    assert replayed == set(range(10, 40))
    assert instances() == 0


def test_a_segment_says_what_it_failed_on(
    url_to_process: str, processing: Milepost, table: Table
) -> None:
    picky = Picky(url_to_process, disliked={"bad"})
    processor = picky.processor(processing, on_failure="stop", segments=1)
    table.append(("bad", 1))
    with pytest.raises(HandlerFailed):
        processor.run("caught_up")
    row = table.conn.execute("select last_error from milepost.segments").fetchone()
    assert row is not None
    assert "no bad" in row[0]


def test_an_instance_whose_callbacks_fail_says_that_it_leaves_its_segments(
    processing: Milepost, table: Table
) -> None:
    class Sick(Checkpointing):
        def __call__(self, messages: list[RecordedMessage]) -> None: ...

        def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
            raise ConnectionError("the store is away")

        def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> None: ...

    made = processing.processor("sick", delivery="at_least_once", retry=Retry(limit=1))(Sick())
    instance = Instance(made)
    query = "select at_most from milepost.instances"
    wait_until(lambda: table.conn.execute(query).fetchall() == [(0,)])
    assert isinstance(instance.ends(), SegmentsGivenBack)


def test_a_paused_processor_stays_paused(processing: Milepost, table: Table) -> None:
    @processing.processor("plain")
    def plain(messages: list[RecordedMessage], tx: Connection) -> None:
        pass

    plain.run("caught_up")
    table.conn.execute("update milepost.processors set is_paused = true")
    table.append(("a", 1))
    with running(plain):
        paused = "select state from milepost.processors"
        wait_until(lambda: table.conn.execute(paused.encode()).fetchone() == ("paused",))
    row = table.conn.execute("select is_paused from milepost.processors").fetchone()
    assert row == (True,)


def test_a_handler_appends_and_puts_with_further_activities(
    roles: Roles, mp: Milepost, conn: Connection
) -> None:
    from milepost import Job

    application = Milepost(roles.make("process", "append", "put"))

    @application.processor("relay", types=["In"])
    def relay(messages: list[RecordedMessage], tx: Connection) -> None:
        application.append(tx, *(Message("Out", message.data) for message in messages))
        application.put(tx, *(Job("jobs", message.data) for message in messages))

    mp.append(conn, Message("In", 1))
    relay.run("caught_up")
    assert [message.type for message in mp.read()] == ["In", "Out"]
    assert conn.execute("select channel from milepost.jobs").fetchall() == [("jobs",)]
