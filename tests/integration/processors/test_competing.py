"""Several instances under one name: every effect once, one active, the others standing by."""

from __future__ import annotations

import logging
import signal
import threading

import pytest

from milepost import Milepost, RecordedMessage, app, db
from milepost.checkpoints import CheckpointKey, PostgresCheckpointStore
from milepost.db import AsyncConnection, Connection
from milepost.processors import Processor
from milepost.processors.handler_call import Delivery
from milepost.processors.status import ProcessorStatus
from milepost.runtime import Timing
from tests.integration.processors import application, sessions
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave_all, running
from tests.waiting import wait_until

LOOSE = ("at_least_once", "concurrent")


class Held:
    """A handler that keeps its batch in hand until it is let go."""

    def __init__(self) -> None:
        self.has_begun, self.is_released = threading.Event(), threading.Event()

    def hold_again(self) -> None:
        self.has_begun.clear()
        self.is_released.clear()

    def __call__(self, messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        self.has_begun.set()
        assert self.is_released.wait(30)


def instance_of(url: str, handler: object) -> Processor:
    """An instance of the same processor, as another process would make it."""
    mp = Milepost(url)
    options = mp.processor("shared", batch_size=5, poll_seconds=0.05)
    return options(handler)


def owner_of_checkpoint(conn: Connection) -> str | None:
    found = PostgresCheckpointStore(conn).load(CheckpointKey("shared"))
    return None if found is None else found.owner


def row_of_processor(conn: Connection) -> tuple[str, str]:
    row = conn.execute("select state, owner from milepost.processors").fetchone()
    assert row is not None
    return row[0], row[1]


def test_two_instances_handle_every_message_once(url: str, effects: Effects, put: Put) -> None:
    positions = put(50)
    with running(*(instance_of(url, leave_all) for _ in range(3))):
        for _ in range(20):
            positions += put(7)
        effects.wait_for(len(positions))
    assert effects.positions() == positions


def test_two_instances_with_async_handlers_handle_every_message_once(
    url: str, effects: Effects, put: Put
) -> None:
    async def keep(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        for message in messages:
            await tx.execute(
                "insert into effects (transaction_id, position) values (%s, %s)",
                [message.position.transaction_id, message.position.position],
            )

    positions = put(50)
    with running(instance_of(url, keep), instance_of(url, keep)):
        for _ in range(10):
            positions += put(7)
        effects.wait_for(len(positions))
    assert effects.positions() == positions


def test_a_standby_takes_over_when_the_active_one_stops(
    url: str, conn: Connection, effects: Effects, put: Put, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "milepost.processors")
    held = Held()
    positions = put(5)
    with running(instance_of(url, held)) as (active,):
        assert held.has_begun.wait(30)
        with running(instance_of(url, leave_all)) as (standby,):
            sessions.wait_until_one_waits_for_a_lock(conn, "shared")
            held.is_released.set()
            wait_until(lambda: f"state=standby owner={standby.owner}" in caplog.text)
            active.stop.set()
            assert active.ends() is None
            positions += put(5)
            effects.wait_for(10)
            assert owner_of_checkpoint(conn) == standby.owner
    assert effects.positions() == positions


def test_a_standby_takes_over_when_the_active_one_is_killed_in_its_batch(
    url: str, conn: Connection, effects: Effects, put: Put
) -> None:
    positions = put(application.BATCH_SIZE)
    with application.started(url, "endless") as process:
        application.wait_until_handling(process)
        mp = Milepost(url)
        standby = mp.processor(application.NAME)(leave_all)
        with running(standby):
            sessions.wait_until_one_waits_for_a_lock(conn, application.NAME)
            process.send_signal(signal.SIGKILL)
            effects.wait_for(len(positions))
    assert effects.positions() == positions


@pytest.mark.parametrize("kind", ["exactly_once", "filtered", "at_least_once", "concurrent"])
def test_a_checkpoint_that_is_locked_for_long_is_waited_for(
    url: str, mp: Milepost, conn: Connection, put: Put, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "milepost.processors")
    conn.execute("alter function milepost.store_checkpoint set lock_timeout = '20ms'")
    processor = of_kind(mp, kind)
    processor.run(until="caught_up")
    last = put(3)[-1]
    with db.connect(url) as other:
        other.execute("begin")
        other.execute("select from milepost.checkpoints for update")
        with running(processor):
            wait_until(lambda: "state=standby" in caplog.text)
            other.execute("commit")
            wait_until(lambda: processor.position() == last)


def of_kind(mp: Milepost, kind: str) -> Processor:
    topics = ["unheard-of"] if kind == "filtered" else None
    delivery: Delivery = "at_least_once" if kind in LOOSE else "exactly_once"
    concurrency = 3 if kind == "concurrent" else 1
    return mp.processor(
        kind, topics=topics, delivery=delivery, concurrency=concurrency, handle="message",
        checkpoint_every=1, poll_seconds=0.05,
    )(lambda *_: None)  # fmt: skip


def test_a_standby_takes_over_when_the_active_one_is_killed_in_a_long_statement(
    url: str, conn: Connection, effects: Effects, put: Put
) -> None:
    positions = put(application.BATCH_SIZE)
    with application.started(url, "endless_statement") as process:
        application.wait_until_handling(process)
        mp = Milepost(url)
        standby = mp.processor(application.NAME)(leave_all)
        with running(standby):
            sessions.wait_until_one_waits_for_a_lock(conn, application.NAME)
            process.send_signal(signal.SIGKILL)
            try:  # the statement of the dead one would last for an hour
                wait_until(lambda: effects.count() == len(positions))
            finally:
                sessions.terminate(conn, application.NAME)
    assert effects.positions() == positions


def test_only_the_active_instance_writes_the_row_of_the_processor(
    url: str, conn: Connection, effects: Effects, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the standby was the active one before, and however often both report."""
    monkeypatch.setattr(app, "Timing", lambda: Timing(report_seconds=0.02))
    held = Held()
    held.is_released.set()
    with running(instance_of(url, held)) as (former,):
        put(1)
        effects.wait_for(1)
        held.hold_again()
        put(1)
        assert held.has_begun.wait(30)
        with running(instance_of(url, leave_all)) as (active,):
            sessions.wait_until_one_waits_for_a_lock(conn, "shared")
            sessions.terminate_in_transaction(conn, "shared")
            effects.wait_for(2)
            held.is_released.set()
            wait_until(lambda: row_of_processor(conn) == ("running", active.owner))
            after_reports = watch_row(conn, monkeypatch, former.owner)
            wait_until(lambda: len(after_reports) >= 20)
            assert set(after_reports) == {("running", active.owner)}


def watch_row(
    conn: Connection, monkeypatch: pytest.MonkeyPatch, owner: str
) -> list[tuple[str, str]]:
    """What the row says after each report of an instance, which has nothing to do."""
    found: list[tuple[str, str]] = []
    report = ProcessorStatus.reported

    def observed(self: ProcessorStatus, handled: int, *, is_written: bool) -> None:
        report(self, handled, is_written=is_written)
        if self.owner == owner:
            found.append(row_of_processor(conn))

    monkeypatch.setattr(ProcessorStatus, "reported", observed)
    return found
