"""What a processor tells of itself in `milepost.processors`."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from milepost import Milepost, Position, RecordedMessage, Retry, db
from milepost.db import Connection
from milepost.errors import HandlerFailed
from milepost.processors.definition import ProcessorOptions
from milepost.processors.status import ProcessorStatus
from milepost.runtime import Timing
from tests.integration.processors import sessions
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, Instance, leave_all, running
from tests.waiting import wait_until


@pytest.fixture
def timing() -> Timing:
    return Timing(report_seconds=0.05)


def row(conn: Connection) -> dict[str, Any]:
    with conn.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute("select * from milepost.processors").fetchone()
    return found or {}


def test_the_row_follows_the_life_of_a_processor(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    processor = mp.processor(
        "telling", topics=["default"], types=["Counted"], batch_size=5, poll_seconds=0.01
    )(leave_all)
    with running(processor) as (instance,):
        wait_until(lambda: row(conn).get("state") == "running")
        put(20)
        wait_until(lambda: row(conn)["handled"] == 20)
        found = row(conn)
        assert (found["name"], found["version"], found["owner"]) == ("telling", 1, instance.owner)
        assert (found["topics"], found["types"]) == (["default"], ["Counted"])
        assert found["last_error"] is None
        wait_until(lambda: row(conn)["rate"] == 0)
        more: list[Position] = []

        def has_a_rate() -> bool:
            """While messages come: without, the next report but one says 0 again."""
            more.extend(put(1))
            return bool(row(conn)["rate"] > 0)

        wait_until(has_a_rate)
        wait_until(lambda: row(conn)["handled"] == 20 + len(more))
    assert row(conn)["state"] == "stopped"
    assert row(conn)["handled"] == 20 + len(more)


def test_reports_at_the_same_time_count_each_message_once(
    mp: Milepost, conn: Connection, url: str
) -> None:
    """That of a batch, and that of the thread which reports for those that are idle."""
    conn.execute("insert into milepost.processors (name, version) values ('telling', 1)")
    options = ProcessorOptions("telling")
    status = ProcessorStatus(owner="me", schema="milepost", options=options, report_seconds=3600.0)
    status.reported_at = status.clock()
    with mp.connect() as own:
        status.batch(own, 7, Position(0, 7))
        assert row(conn)["handled"] == 7  # its state has changed, which is told immediately
        status.batch(own, 5, Position(0, 12))

    def report() -> None:
        with db.connect(url, application_name="reporting") as own:
            status.write(own)

    waiting = "select count(*) from pg_stat_activity where application_name = 'reporting'"
    waiting += " and wait_event_type = 'Lock'"
    with ThreadPoolExecutor(2) as pool, mp.connect() as holder:
        with holder.transaction():
            holder.execute("select from milepost.processors for update")
            reports = [pool.submit(report) for _ in range(2)]
            wait_until(lambda: conn.execute(waiting).fetchone() == (2,))
        for each in reports:
            each.result(60)
    assert row(conn)["handled"] == 12


def test_what_a_lost_report_would_have_counted_is_in_the_next_one(
    mp: Milepost, conn: Connection
) -> None:
    options = ProcessorOptions("telling")
    status = ProcessorStatus(owner="me", schema="milepost", options=options, report_seconds=3600.0)
    status.reported_at = status.clock()
    with mp.connect() as own:
        own.close()
        status.batch(own, 7, Position(0, 7))
        with pytest.raises(psycopg.OperationalError):
            status.write(own)
    status.write(conn)  # the row is not there yet
    conn.execute("insert into milepost.processors (name, version) values ('telling', 1)")
    status.write(conn)
    assert row(conn)["handled"] == 7


def test_a_retry_and_a_failure_are_told_with_their_error(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    release = threading.Event()

    @mp.processor("telling", retry=Retry(limit=1, first_seconds=0.001))
    def fail(messages: list[RecordedMessage], tx: Connection) -> None:
        if row(conn)["state"] == "retrying":
            assert release.wait(30)
        raise RuntimeError("as ever")

    put(1)
    instance = Instance(fail)
    wait_until(lambda: row(conn).get("state") == "retrying")
    assert row(conn)["last_error"] == "RuntimeError: as ever"
    release.set()
    assert isinstance(instance.ends(), HandlerFailed)
    found = row(conn)
    assert found["state"] == "failed"
    assert found["last_error"].startswith("HandlerFailed: ")
    assert found["last_error_at"] is not None


def test_a_processor_that_recovers_is_running_again(
    mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    failures = [RuntimeError("once"), RuntimeError("twice")]

    @mp.processor("telling", retry=Retry(first_seconds=0.001), poll_seconds=0.01)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        if failures:
            raise failures.pop()
        leave_all(messages, tx)

    with running(keep):
        put(1)
        effects.wait_for(1)
        wait_until(lambda: row(conn)["state"] == "running")
        assert row(conn)["last_error"] == "RuntimeError: once"


def test_an_idle_processor_that_reconnected_is_running_again(url: str, conn: Connection) -> None:
    silent = Milepost(url, timing=Timing(report_seconds=3600.0))  # a report only for a reason
    processor = silent.processor("telling", poll_seconds=0.01)(leave_all)
    with running(processor):
        wait_until(lambda: row(conn).get("state") == "running")
        conn.execute("update milepost.processors set state = 'unknown'")
        sessions.terminate(conn, "watcher")
        wait_until(lambda: row(conn)["state"] != "unknown")
        assert row(conn)["state"] == "running"


def test_an_instance_that_fails_at_once_tells_it_though_the_one_before_died_just_now(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    """The row still looks as if the one that died were alive and well."""

    @mp.processor("telling", retry=Retry(limit=0))
    def fail(messages: list[RecordedMessage], tx: Connection) -> None:
        raise RuntimeError("as ever")

    conn.execute(
        "insert into milepost.processors (name, version, state, owner) "
        "values ('telling', 1, 'running', 'the one before')"
    )
    put(1)
    with pytest.raises(HandlerFailed):
        fail.run(until="caught_up")
    assert row(conn)["state"] == "failed"
    assert "as ever" in row(conn)["last_error"]


def test_an_idle_instance_leaves_the_row_to_one_that_reported_just_now(
    mp: Milepost, conn: Connection, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = mp.processor("telling", poll_seconds=0.01)(leave_all)
    conn.execute(  # so that it stays just now, however long this takes
        "insert into milepost.processors (name, version, state, owner, reported_at) "
        "values ('telling', 1, 'running', 'another', now() + interval '1 hour')"
    )
    with running(processor) as (instance,):
        wait_until(lambda: sessions.count(conn, "telling") == 1)
        assert row(conn)["owner"] == "another"
        conn.execute("update milepost.processors set reported_at = now() - interval '1 minute'")
        wait_until(lambda: row(conn)["owner"] == instance.owner)
        assert row(conn)["state"] == "running"
