"""When a worker looks for jobs: woken, on time, at a freed slot, by polling; and how it stops."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from milepost import Job, Milepost, TakenJob
from milepost.db import Connection, one
from milepost.queue.verbs import take
from milepost.queue.worker import idle
from milepost.queue.worker.buffer import Ahead
from milepost.runtime import Timing
from tests.integration.processors import sessions
from tests.integration.queue.jobs import expire
from tests.integration.queue.worker.working import PATIENCE_SECONDS, is_empty, statuses, working
from tests.waiting import wait_until


def test_a_worker_that_waits_is_woken_by_a_put_and_by_the_time_of_a_job(
    mp: Milepost, conn: Connection
) -> None:
    """It polls once an hour only."""
    seen: list[str] = []

    @mp.worker("emails", poll_seconds=3600)
    def send(job: TakenJob) -> None:
        seen.append(job.content)

    with working(send):
        for number in range(5):
            mp.put(conn, Job("emails", f"now {number}"))
            wait_until(lambda n=number: len(seen) == n + 1)  # type: ignore[misc]
        mp.put(conn, Job("emails", "later", run_at=timedelta(seconds=0.3)))
        wait_until(lambda: seen[-1] == "later")


def test_a_worker_is_woken_again_after_the_watcher_lost_its_connection(
    mp: Milepost, conn: Connection
) -> None:
    """It polls once an hour only. Nothing of what was put meanwhile is missed."""
    seen: list[int] = []

    @mp.worker("emails", poll_seconds=3600)
    def send(job: TakenJob) -> None:
        seen.append(job.content)

    with working(send):
        for number in range(0, 6, 2):
            mp.put(conn, Job("emails", number))
            wait_until(lambda n=number: len(seen) == n + 1)  # type: ignore[misc]
            wait_until(lambda: sessions.terminate(conn, "watcher") == 1)
            mp.put(conn, Job("emails", number + 1))
            wait_until(lambda n=number: len(seen) == n + 2)  # type: ignore[misc]
    assert seen == list(range(6))


def test_a_worker_that_is_woken_also_takes_what_expired(mp: Milepost, conn: Connection) -> None:
    seen: list[str] = []

    @mp.worker("emails", poll_seconds=3600)
    def send(job: TakenJob) -> None:
        seen.append(job.content)

    (lost,) = mp.put(conn, Job("emails", "lost"))
    take(conn, 1)
    with working(send):
        mp.put(conn, Job("emails", "first"))
        wait_until(lambda: seen == ["first"])
        expire(conn, [lost])
        mp.put(conn, Job("emails", "second"))
        wait_until(lambda: sorted(seen) == ["first", "lost", "second"])


def test_a_put_that_wakes_nobody_is_found_when_it_commits(mp: Milepost, conn: Connection) -> None:
    """Of two puts in flight only one notifies; the other one commits long after."""
    seen: list[str] = []

    @mp.worker("emails", poll_seconds=3600)
    def send(job: TakenJob) -> None:
        seen.append(job.content)

    with working(send), mp.connect() as second:
        with second.transaction():
            with conn.transaction():
                mp.put(conn, Job("emails", "first"))
                mp.put(second, Job("emails", "second"))
            wait_until(lambda: seen == ["first"])
            time.sleep(0.3)  # the worker looks, and finds nothing, for a while
        wait_until(lambda: seen == ["first", "second"])


def test_one_idle_worker_polls_for_all(
    mp: Milepost, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody notifies. Each takes what its own pattern matches."""
    seen: list[tuple[str, int]] = []
    askers: list[int] = []

    def asking(conn: Connection, schema: str, patterns: list[str]) -> object:
        askers.append(len(patterns))
        return ask(conn, schema, patterns)

    ask = idle._ask
    monkeypatch.setattr(idle, "_ask", asking)
    for pattern in ("emails", "invoices", "reports.*"):
        mp.worker(pattern, poll_seconds=0.5)(lambda job, by=pattern: seen.append((by, job.content)))
    with working(*mp.members()):
        wait_until(lambda: 3 in askers)
        with conn.transaction():
            conn.execute("set local session_replication_role = replica")  # without triggers
            mp.put(conn, Job("invoices", 1), Job("reports.daily", 2))
        wait_until(lambda: sorted(seen) == [("invoices", 1), ("reports.*", 2)])
        (expired,) = mp.put(conn, Job("others", 3))
        conn.execute("update milepost.jobs set channel = 'emails' where id = %s", [expired])
        wait_until(lambda: ("emails", 3) in seen)


@pytest.mark.parametrize(
    ("keys", "poll_seconds"), [([0], 1.0), ([2**32], 3600.0), ([0, 2**32], 3600.0)]
)
def test_locks_that_anybody_may_take_hold_up_neither_puts_nor_workers(
    mp: Milepost, conn: Connection, keys: list[int], poll_seconds: float
) -> None:
    """Who may only connect can take the locks by which one of the puts in flight notifies. Whoever
    takes the first alone looks like a put that will notify: then resting workers poll."""
    seen: list[str] = []

    @mp.worker("emails", poll_seconds=poll_seconds)
    def send(job: TakenJob) -> None:
        seen.append(job.content)

    with working(send), mp.connect() as outsider, mp.connect() as other:
        mp.put(conn, Job("emails", "first"))
        wait_until(lambda: seen == ["first"])
        for key in keys:
            outsider.execute(
                "select pg_advisory_lock(-'milepost.jobs'::regclass::oid::bigint - %s)", [key]
            )
        with conn.transaction(), other.transaction():
            for producer, content in ((conn, "second"), (other, "third")):
                producer.execute("set local lock_timeout = '5s'")
                mp.put(producer, Job("emails", content))
        wait_until(lambda: sorted(seen) == ["first", "second", "third"])


def test_a_freed_slot_is_used_at_once(mp: Milepost, conn: Connection) -> None:
    """Ten jobs one after the other, by a worker that polls once an hour."""
    mp.set_channel("emails", max_concurrency=1)
    seen: list[int] = []

    @mp.worker("emails", poll_seconds=3600)
    def send(job: TakenJob) -> None:
        seen.append(job.content)

    with working(send):
        mp.put(conn, *(Job("emails", n) for n in range(10)))
        wait_until(lambda: is_empty(conn))
    assert seen == list(range(10))


def test_a_channel_that_another_take_has_locked_is_looked_at_again_soon(
    mp: Milepost, conn: Connection
) -> None:
    """That take may have seen the channel at its limit, and give nothing."""
    mp.set_channel("emails", max_concurrency=1)
    seen: list[int] = []

    @mp.worker("emails", poll_seconds=3600)
    def send(job: TakenJob) -> None:
        seen.append(job.content)

    with working(send), mp.connect() as other:
        with other.transaction():
            other.execute("select from milepost.channels where name = 'emails' for update")
            mp.put(conn, Job("emails", 1))
            time.sleep(0.3)  # the worker looks, and finds nothing, for a while
        wait_until(lambda: seen == [1])


def test_releases_keep_their_interval_without_polling(mp: Milepost, conn: Connection) -> None:
    mp.set_channel("emails", release_interval=timedelta(seconds=0.2))
    locked_until = "select locked_until from milepost.jobs where id = %s"
    released: list[datetime] = []

    # No heartbeat extends such a lock meanwhile: it tells when the job was released. A handler's
    # own clock would tell when it was begun, which may be later for one than for another.
    @mp.worker("emails", poll_seconds=3600, lock=3600)
    def send(job: TakenJob, tx: Connection) -> None:
        released.append(one(tx.execute(locked_until, [job.id]).fetchone())[0])

    with working(send):
        mp.put(conn, *(Job("emails", n) for n in range(4)))
        wait_until(lambda: is_empty(conn))
    released.sort()
    gaps = [later - sooner for sooner, later in pairwise(released)]
    assert len(gaps) == 3
    assert min(gaps) >= timedelta(seconds=0.2)


def test_a_worker_without_listen_keeps_no_session_state(mp: Milepost, conn: Connection) -> None:
    """As behind PgBouncer: nothing prepared, nothing listened to, no setting changed."""
    seen: list[int] = []

    @mp.worker("emails", listen=False, poll_seconds=0.02)
    def send(job: TakenJob, tx: Connection) -> None:
        found = tx.execute(
            "select (select count(*) from pg_prepared_statements) + "
            "(select count(*) from pg_listening_channels()) + "
            "(select count(*) from pg_settings where source = 'session')"
        ).fetchone()
        assert found == (0,)
        seen.append(job.content)

    with working(send):
        for number in range(20):
            mp.put(conn, Job("emails", number))
            wait_until(lambda n=number: len(seen) == n + 1)  # type: ignore[misc]
        wait_until(lambda: is_empty(conn))


def test_a_stopped_worker_ends_what_it_is_at_and_gives_the_rest_back(
    url: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes many ahead, however slow the machine is, and gives none back before the stop."""
    monkeypatch.setattr(Ahead, "ahead", lambda *_: 50)
    mp = Milepost(url, timing=Timing(held_seconds=3600.0))
    begun, is_free = threading.Event(), threading.Event()

    @mp.worker("emails", concurrency=1)
    def send(job: TakenJob) -> None:
        if job.content > 200:
            begun.set()
            assert is_free.wait(PATIENCE_SECONDS)

    mp.put(conn, *(Job("emails", n) for n in range(1, 1001)))
    with working(send) as (worker,):
        assert begun.wait(PATIENCE_SECONDS)
        wait_until(lambda: count(conn, "running") > 5)
        worker.stop.set()
        wait_until(lambda: count(conn, "running") == 1)  # the others are back at once
        is_free.set()
        worker.ends()
    assert count(conn, "running") == 0
    assert count(conn, "ready") == 1000 - 201
    row = conn.execute("select max(failures), min(run_at) < now() from milepost.jobs").fetchone()
    assert row == (0, True)


def count(conn: Connection, status: str) -> int:
    return sum(row[0] == status for row in statuses(conn))
