"""After a reset, what was handled before says so; tables are emptied in the same transaction."""

from __future__ import annotations

import threading

import psycopg
import pytest

from milepost import Message, Milepost, Position, RecordedMessage, Retry, db
from milepost.db import AsyncConnection, Connection
from milepost.processors import Processor
from milepost.processors.set_aside.dead_letters import list_dead_letters
from tests.integration.processors import sessions
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave_all, running
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.usefixtures("quick_orders"),
]
Seen = list[tuple[int, bool]]


def numbered(mp: Milepost, conn: Connection, numbers: range) -> list[Position]:
    return mp.append(conn, *(Message("Done", {"n": n}, key=f"key-{n % 3}") for n in numbers))


def noting(mp: Milepost, seen: Seen, **options: object) -> Processor:
    def note(messages: list[RecordedMessage], tx: Connection) -> None:
        seen.extend((message.data["n"], message.replaying) for message in messages)

    return mp.processor("noting", **options)(note)  # type: ignore[arg-type]  # keywords


def reset(processor: Processor, to: Position | str = "beginning") -> None:
    with db.connect(processor.runtime.url) as own, own.transaction():
        processor.reset(to, own)  # type: ignore[arg-type]  # 'beginning' or 'end'


def test_messages_say_that_they_are_replayed_up_to_where_the_reset_was(
    mp: Milepost, conn: Connection
) -> None:
    seen: Seen = []
    processor = noting(mp, seen, batch_size=2)
    positions = numbered(mp, conn, range(3))
    processor.run(until="caught_up")
    assert seen == [(0, False), (1, False), (2, False)]
    numbered(mp, conn, range(3, 6))
    reset(processor, positions[0])
    seen.clear()
    processor.run(until="caught_up")
    assert seen == [(1, True), (2, True), (3, False), (4, False), (5, False)]


def test_a_reset_during_a_replay_keeps_what_was_to_be_replayed(
    mp: Milepost, conn: Connection
) -> None:
    seen: Seen = []
    processor = noting(mp, seen, batch_size=1)
    positions = numbered(mp, conn, range(4))
    processor.run(until="caught_up")
    reset(processor, "beginning")
    reset(processor, positions[0])
    seen.clear()
    processor.run(until="caught_up")
    assert seen == [(1, True), (2, True), (3, True)]
    reset(processor, "beginning")
    assert conn.execute("select count(*) from milepost.replays").fetchone() == (1,)


def test_a_running_processor_notices_a_reset_and_marks_what_comes_again(
    mp: Milepost, conn: Connection
) -> None:
    seen: Seen = []
    processor = noting(mp, seen, poll_seconds=0.05)
    numbered(mp, conn, range(3))
    with running(processor):
        wait_until(lambda: len(seen) == 3)
        reset(processor)
        wait_until(lambda: len(seen) == 6)
        numbered(mp, conn, range(3, 4))
        wait_until(lambda: len(seen) == 7)
    assert seen[3:] == [(0, True), (1, True), (2, True), (3, False)]


def test_a_handler_that_skips_replays_sees_none(mp: Milepost, conn: Connection) -> None:
    seen: Seen = []
    mailed: Seen = []
    processor = noting(mp, seen)

    @processor.handler.skip_on_replay
    def mail(messages: list[RecordedMessage], tx: Connection) -> None:
        mailed.extend((message.data["n"], message.replaying) for message in messages)

    numbered(mp, conn, range(2))
    processor.run(until="caught_up")
    reset(processor)
    numbered(mp, conn, range(2, 4))
    processor.run(until="caught_up")
    assert mailed == [(n, False) for n in range(4)]
    assert [n for n, _ in seen] == [0, 1, 0, 1, 2, 3]


def test_concurrent_handlers_see_it_too(mp: Milepost, conn: Connection) -> None:
    seen: Seen = []

    @mp.processor(
        "noting", handle="message", delivery="at_least_once", concurrency=2, checkpoint_every=1
    )
    async def note(message: RecordedMessage) -> None:
        seen.append((message.data["n"], message.replaying))

    numbered(mp, conn, range(2))
    note.run(until="caught_up")
    reset(note)
    numbered(mp, conn, range(2, 4))
    seen.clear()
    note.run(until="caught_up")
    assert sorted(seen) == [(0, True), (1, True), (2, False), (3, False)]


def test_reset_handlers_run_in_the_transaction_that_rewinds(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    processor = mp.processor("filling")(leave_all)
    told: list[Position] = []

    @processor.on_reset
    def empty(tx: Connection, to: Position) -> None:
        told.append(to)
        tx.execute("delete from effects where position > %s", [to.position])

    positions = put(4)
    processor.run(until="caught_up")
    with db.connect(processor.runtime.url) as own, own.transaction(force_rollback=True):
        processor.reset(positions[1], own)
        assert own.execute("select count(*) from effects").fetchone() == (2,)
    assert (effects.count(), processor.position()) == (4, positions[-1])
    reset(processor, positions[1])
    assert effects.positions() == positions[:2]
    processor.run(until="caught_up")
    assert effects.positions() == positions
    assert told == [positions[1]] * 2


def test_a_reset_handler_that_fails_leaves_everything_as_it_was(
    mp: Milepost, effects: Effects, put: Put
) -> None:
    processor = mp.processor("filling")(leave_all)

    @processor.on_reset
    def empty(tx: Connection, to: Position) -> None:
        tx.execute("delete from effects")
        with pytest.raises(psycopg.errors.UndefinedTable):
            tx.execute("delete from nowhere")

    positions = put(3)
    processor.run(until="caught_up")
    with pytest.raises(Exception, match="transaction"):
        reset(processor)
    assert effects.positions() == positions
    assert processor.position() == positions[-1]


def test_an_async_reset_handler_is_refused(mp: Milepost) -> None:
    processor = mp.processor("filling")(leave_all)
    with pytest.raises(TypeError, match="a plain function"):

        @processor.on_reset
        async def empty(tx: AsyncConnection, to: Position) -> None: ...


def test_a_reset_in_the_middle_of_a_slow_batch_doubles_nothing(
    url: str, mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    """The batch holds the checkpoint's row, so that it is waited for: its effects are there when
    the table is emptied."""
    has_begun, is_released = threading.Event(), threading.Event()

    @mp.processor("filling", batch_size=2)
    def fill(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        has_begun.set()
        assert is_released.wait(30)

    @fill.on_reset
    def empty(tx: Connection, to: Position) -> None:
        tx.execute("truncate effects")

    positions = put(6)
    with running(fill):
        assert has_begun.wait(30)
        with db.connect(url, application_name="milepost operator") as operator:
            resetting = threading.Thread(target=fill.reset, args=("beginning", operator))
            resetting.start()
            sessions.wait_until_one_waits_for_a_lock(conn, "operator")
            is_released.set()
            resetting.join()
        wait_until(lambda: fill.position() == positions[-1])
    assert effects.positions() == positions


def at_least_once_reset_in_the_middle(url: str, mp: Milepost, put: Put) -> list[Position]:
    """The first batch is in flight, without any lock, as its table is emptied; the checkpoint
    stays where it was: at the beginning."""
    has_begun, is_released = threading.Event(), threading.Event()

    @mp.processor("filling", delivery="at_least_once", batch_size=10)
    def fill(messages: list[RecordedMessage]) -> None:
        with psycopg.connect(url, autocommit=True) as own:
            leave_all(messages, own)
        has_begun.set()
        assert is_released.wait(30)

    @fill.on_reset
    def empty(tx: Connection, to: Position) -> None:
        tx.execute("truncate effects")

    positions = put(4)
    with running(fill):
        assert has_begun.wait(30)
        reset(fill)
        is_released.set()
        wait_until(lambda: fill.position() == positions[-1])
    return positions


def test_a_batch_without_a_lock_is_fenced_by_a_reset_to_where_it_began(
    url: str, mp: Milepost, effects: Effects, put: Put
) -> None:
    assert at_least_once_reset_in_the_middle(url, mp, put) == effects.positions()


def test_without_a_new_epoch_its_effects_would_be_lost(
    url: str, mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    row = conn.execute("select pg_get_functiondef('milepost.reset_processor'::regproc)").fetchone()
    assert row is not None
    assert "epoch = c.epoch + 1," in row[0]
    conn.execute(row[0].replace("epoch = c.epoch + 1,", "epoch = c.epoch,"))
    at_least_once_reset_in_the_middle(url, mp, put)
    assert effects.positions() == []


def test_letters_of_what_is_delivered_again_go_and_earlier_ones_stay(
    mp: Milepost, conn: Connection
) -> None:
    seen: Seen = []
    is_mended = False

    @mp.processor("noting", on_failure="park", retry=Retry(limit=0))
    def note(messages: list[RecordedMessage], tx: Connection) -> None:
        if not is_mended and any(message.key == "key-1" for message in messages):
            raise RuntimeError("not key-1")
        seen.extend((message.data["n"], message.replaying) for message in messages)

    positions = numbered(mp, conn, range(9))
    note.run(until="caught_up")
    assert [letter.data["n"] for letter in list_dead_letters(conn, "milepost")] == [1, 4, 7]
    reset(note, positions[2])
    assert [letter.data["n"] for letter in list_dead_letters(conn, "milepost")] == [1]
    seen.clear()
    note.run(until="caught_up")
    assert [letter.data["n"] for letter in list_dead_letters(conn, "milepost")] == [1, 4, 7]
    is_mended = True
    conn.execute("select milepost.request_retry(array_agg(id)) from milepost.dead_letters")
    note.run(until="caught_up")
    assert [each for each in seen if each[0] in (1, 4, 7)] == [(1, False), (4, True), (7, True)]
    reset(note)
    seen.clear()
    note.run(until="caught_up")
    assert [n for n, _ in seen] == list(range(9))
    assert conn.execute("select count(*) from milepost.parked_keys").fetchone() == (0,)
