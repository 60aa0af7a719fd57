"""What operators ask of a running processor: pause, resume, begin again elsewhere."""

from __future__ import annotations

import threading
from collections import Counter

import psycopg
import pytest

from milepost import Milepost, Position, RecordedMessage, db
from milepost.checkpoints import CheckpointKey, PostgresCheckpointStore
from milepost.db import Connection
from milepost.processors import Processor
from milepost.processors.oversight import Overseen, Oversight
from tests.integration.processors import sessions
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave, leave_all, running
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.usefixtures("quick_orders"),
]
KEY = CheckpointKey("watched")


def pause(conn: Connection, *, is_paused: bool) -> None:
    conn.execute("update milepost.processors set is_paused = %s", [is_paused])


def state(conn: Connection) -> object:
    row = conn.execute("select state from milepost.processors").fetchone()
    return None if row is None else row[0]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often a processor asked for orders."""
    counted: Counter[str] = Counter()
    ask = Oversight.ask

    def counting(self: Oversight, conn: Connection, overseen: list[Overseen]) -> None:
        counted["asked"] += 1
        ask(self, conn, overseen)

    monkeypatch.setattr(Oversight, "ask", counting)
    return counted


def test_a_paused_processor_handles_nothing_until_it_is_resumed(
    mp: Milepost, conn: Connection, effects: Effects, put: Put, asked: Counter[str]
) -> None:
    processor = mp.processor("watched", poll_seconds=0.01)(leave_all)
    with running(processor):
        positions = put(2)
        effects.wait_for(2)
        pause(conn, is_paused=True)
        wait_until(lambda: state(conn) == "paused")
        positions += put(3)
        goal = asked["asked"] + 5
        wait_until(lambda: asked["asked"] >= goal)
        assert effects.count() == 2
        pause(conn, is_paused=False)
        effects.wait_for(5)
        wait_until(lambda: state(conn) == "running")
    assert effects.positions() == positions


def test_a_paused_processor_can_be_stopped(
    mp: Milepost, conn: Connection, effects: Effects
) -> None:
    processor = mp.processor("watched")(leave_all)
    processor.run(until="caught_up")
    pause(conn, is_paused=True)
    with running(processor) as (instance,):
        wait_until(lambda: state(conn) == "paused")
        instance.stop.set()
        assert instance.ends() is None


def of_kind(mp: Milepost, url: str, kind: str) -> Processor:
    def with_connection_of_its_own(message: RecordedMessage) -> None:
        with psycopg.connect(url, autocommit=True) as own:
            leave(message, own)

    if kind == "exactly_once":
        return mp.processor("watched", batch_size=3)(leave_all)
    return mp.processor(
        "watched", handle="message", delivery="at_least_once", concurrency=3, batch_size=3,
        checkpoint_every=1,
    )(with_connection_of_its_own)  # fmt: skip


kinds = pytest.mark.parametrize("kind", ["exactly_once", "concurrent"])


@kinds
def test_a_checkpoint_reset_to_the_beginning_makes_an_idle_processor_begin_again(
    url: str, mp: Milepost, conn: Connection, effects: Effects, put: Put, kind: str
) -> None:
    processor = of_kind(mp, url, kind)
    positions = put(7)
    with running(processor):
        wait_until(lambda: processor.position() == positions[-1])
        PostgresCheckpointStore(conn).reset(KEY, Position.BEGINNING)
        effects.wait_for(14)
        wait_until(lambda: processor.position() == positions[-1])
    assert sorted(effects.positions()) == sorted(positions * 2)


@kinds
def test_a_checkpoint_that_was_moved_ahead_is_where_the_processor_goes_on(
    url: str, mp: Milepost, conn: Connection, effects: Effects, put: Put, kind: str
) -> None:
    processor = of_kind(mp, url, kind)
    first = put(2)
    with running(processor):
        wait_until(lambda: processor.position() == first[-1])
        pause(conn, is_paused=True)
        wait_until(lambda: state(conn) == "paused")
        positions = put(6)
        PostgresCheckpointStore(conn).reset(KEY, positions[3])
        pause(conn, is_paused=False)
        wait_until(lambda: processor.position() == positions[-1])
    if kind == "exactly_once":
        assert effects.positions() == [*first, *positions[4:]]
    assert set(effects.positions()) >= {*first, *positions[4:]}


def test_a_reset_in_the_middle_of_a_batch_is_followed_after_it(
    url: str, mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    """The store of the batch holds the checkpoint's row, so the reset comes after it."""
    has_begun, is_released = threading.Event(), threading.Event()

    @mp.processor("watched", batch_size=2)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        has_begun.set()
        assert is_released.wait(30)

    positions = put(6)
    with running(keep):
        assert has_begun.wait(30)
        with db.connect(url, application_name="milepost operator") as other:
            store = PostgresCheckpointStore(other)
            reset = threading.Thread(target=store.reset, args=(KEY, Position.BEGINNING))
            reset.start()
            sessions.wait_until_one_waits_for_a_lock(conn, "operator")
            is_released.set()
            reset.join()
        wait_until(lambda: keep.position() == positions[-1])
    handled = effects.positions()
    assert handled[:2] == positions[:2]
    assert handled[-6:] == positions
