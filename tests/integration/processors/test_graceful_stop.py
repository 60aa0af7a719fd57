"""SIGTERM and SIGINT: the batch in hand is finished, or rolled back when the time is up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from milepost import Milepost, Position, RecordedMessage, Retry
from milepost.checkpoints import CheckpointKey, PostgresCheckpointStore
from milepost.db import Connection
from milepost.errors import HandlerFailed, StopTimedOut
from milepost.processors import Processor, session
from milepost.processors.segments import session as segments_session
from milepost.runtime import Group
from tests.integration.processors import application, sessions
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import (
    PATIENCE_SECONDS,
    Effects,
    Instance,
    leave_all,
)
from tests.waiting import wait_until


def checkpoint(conn: Connection) -> Position | None:
    found = PostgresCheckpointStore(conn).load(CheckpointKey(application.NAME))
    return None if found is None else found.position


def state(conn: Connection) -> object:
    return conn.execute("select state from milepost.processors").fetchone()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_batch_in_hand_finish_and_starts_no_other(
    url: str, conn: Connection, effects: Effects, put: Put, number: signal.Signals
) -> None:
    conn.execute("create table released (at timestamptz)")
    positions = put(2 * application.BATCH_SIZE)
    with application.started(url, "released") as process:
        application.wait_until_handling(process)
        process.send_signal(number)
        application.wait_until_stopping(process)
        conn.execute("insert into released values (now())")
        assert process.wait(PATIENCE_SECONDS) == 0, process.communicate()
    assert effects.positions() == positions[: application.BATCH_SIZE]
    assert checkpoint(conn) == positions[application.BATCH_SIZE - 1]
    assert state(conn) == ("stopped",)


@pytest.mark.parametrize("way", ["endless", "endless_async", "endless_statement"])
def test_a_batch_that_does_not_end_is_rolled_back_when_the_time_is_up(
    url: str, conn: Connection, effects: Effects, put: Put, way: str
) -> None:
    put(application.BATCH_SIZE)
    with application.started(url, way, stop_seconds=0.5) as process:
        application.wait_until_handling(process)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 1
        assert StopTimedOut.__name__ in errors
    assert effects.count() == 0
    assert checkpoint(conn) == Position.BEGINNING
    if way == "endless_statement":
        sessions.terminate(conn, application.NAME)
    wait_until(lambda: sessions.count(conn, application.NAME) == 0)
    assert effects.count() == 0
    assert checkpoint(conn) == Position.BEGINNING


def test_a_signal_ends_a_processor_that_has_nothing_to_do(url: str, conn: Connection) -> None:
    with application.started(url, "endless") as process:
        wait_until(lambda: state(conn) == ("running",))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, process.communicate()


def patient(mp: Milepost, segments: int | None) -> Processor:
    @mp.processor("patient", poll_seconds=3600, segments=segments)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        raise AssertionError("there are no messages")

    return keep


with_and_without_segments = pytest.mark.parametrize("segments", [None, 2])


@with_and_without_segments
def test_a_stop_is_noticed_however_seldom_a_processor_polls(
    mp: Milepost, conn: Connection, segments: int | None
) -> None:
    """Also an event of a program's own."""
    instance = Instance(patient(mp, segments), stop=threading.Event())
    wait_until(lambda: state(conn) == ("running",))
    instance.stop.set()
    assert instance.ends() is None


@with_and_without_segments
def test_a_stop_of_a_group_wakes_a_processor_that_rests(
    mp: Milepost, conn: Connection, monkeypatch: pytest.MonkeyPatch, segments: int | None
) -> None:
    for module in (session, segments_session):
        monkeypatch.setattr(module, "STOP_SECONDS", 3600.0)
    group = Group([patient(mp, segments)])
    thread = threading.Thread(target=group.run, daemon=True)
    thread.start()
    wait_until(lambda: state(conn) == ("running",))
    group.stop.set()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_the_limit_is_one_for_all_processors_of_a_process(
    mp: Milepost, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, stuck = threading.Event(), threading.Semaphore(0)

    def wait(messages: list[RecordedMessage], tx: Connection) -> None:
        stuck.release()
        release.wait()

    processors = [mp.processor(f"stuck-{n}")(wait) for n in range(4)]
    group = Group(processors, stop_seconds=0.5)
    waits = note_waits_for_end(monkeypatch)

    def stop_when_all_are_stuck() -> None:
        for _ in processors:
            stuck.acquire()
        group.stop.set()

    threading.Thread(target=stop_when_all_are_stuck).start()
    put(1)
    try:
        with pytest.raises(StopTimedOut, match="stuck-0, stuck-1, stuck-2, stuck-3"):
            group.run()
        assert len(waits) == len(processors)
        assert sum(waits) < 2 * group.stop_seconds
    finally:
        release.set()
        wait_until(lambda: not any(t.name.startswith("stuck-") for t in threading.enumerate()))


@dataclass(frozen=True, slots=True)
class Joined:
    """A thread whose end is waited for; notes for how long at most."""

    thread: threading.Thread
    waits: list[float]

    @property
    def name(self) -> str:
        return self.thread.name

    def is_alive(self) -> bool:
        return self.thread.is_alive()

    def join(self, timeout: float) -> None:
        self.waits.append(timeout)
        self.thread.join(timeout)


def note_waits_for_end(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how many seconds a group is ready to wait for each of its threads. How long it takes in
    the end says nothing: a busy machine may need longer for a single wait than for all of them."""
    waits: list[float] = []
    wait_for_end = Group._wait_for_end

    def noting(self: Group, threads: Sequence[threading.Thread]) -> None:
        wait_for_end(self, [Joined(thread, waits) for thread in threads])  # type: ignore[misc]  # of its shape

    monkeypatch.setattr(Group, "_wait_for_end", noting)
    return waits


def test_the_first_that_fails_stops_the_others_and_is_raised(
    mp: Milepost, effects: Effects, put: Put
) -> None:
    mp.processor("healthy")(leave_all)

    @mp.processor("sick", retry=Retry(limit=0))
    def fail(messages: list[RecordedMessage], tx: Connection) -> None:
        raise RuntimeError("not today")

    put(1)
    with pytest.raises(HandlerFailed, match=r"'sick'.*not today"):
        mp.run(fail_fast=True)
