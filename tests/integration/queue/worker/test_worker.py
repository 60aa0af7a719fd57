from __future__ import annotations

import asyncio
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from milepost import Cancel, Defer, Job, Milepost, Retry, TakenJob, Yield
from milepost.db import Connection, one
from milepost.queue.worker import loop
from tests.integration.queue.conftest import LONG_LOCK
from tests.integration.queue.worker.working import (
    PATIENCE_SECONDS,
    expire_locks,
    is_empty,
    statuses,
    working,
)
from tests.waiting import wait_until

SOON = Retry(first_seconds=0.01, longest_seconds=0.05)


def test_every_job_is_handled_once_and_gone(mp: Milepost, conn: Connection) -> None:
    seen: list[int] = []

    @mp.worker("emails", concurrency=4)
    def send(job: TakenJob) -> None:
        seen.append(job.content)

    mp.put(conn, *(Job("emails", n) for n in range(3000)))
    mp.run(until="drained")
    assert sorted(seen) == list(range(3000))
    assert is_empty(conn)


def test_an_async_handler_is_called_with_as_many_jobs_at_once_as_was_asked_for(
    mp: Milepost, conn: Connection
) -> None:
    running, most, seen = 0, 0, []
    all_run = asyncio.Event()

    @mp.worker("emails", concurrency=7)
    async def send(job: TakenJob) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 7:
            all_run.set()
        await asyncio.wait_for(all_run.wait(), PATIENCE_SECONDS)
        await asyncio.sleep(0.01)
        running -= 1
        seen.append(job.content)

    mp.put(conn, *(Job("emails", n) for n in range(50)))
    mp.run(until="drained")
    assert sorted(seen) == list(range(50))
    assert most == 7
    assert is_empty(conn)


def test_a_pattern_takes_from_every_channel_that_it_names_and_no_other(
    mp: Milepost, conn: Connection
) -> None:
    seen: Counter[str] = Counter()

    @mp.worker("tenant.*")
    def handle(job: TakenJob) -> None:
        seen[job.channel] += 1

    names = ["tenant.a", "tenant.b", "tenants", "tenant.", "other"]
    mp.put(conn, *(Job(name) for name in names))
    mp.run(until="drained")
    assert seen == {"tenant.a": 1, "tenant.b": 1, "tenant.": 1}
    assert len(statuses(conn)) == 2


def test_an_exception_is_retried_until_it_succeeds(mp: Milepost, conn: Connection) -> None:
    attempts: list[tuple[int, int]] = []

    @mp.worker("emails", retry=SOON)
    def send(job: TakenJob) -> None:
        attempts.append((job.attempt, job.failures))
        if job.attempt < 3:
            raise TimeoutError("no answer")

    mp.put(conn, Job("emails"))
    with working(send):
        wait_until(lambda: is_empty(conn))
    assert attempts == [(1, 0), (2, 1), (3, 2)]


def test_the_last_failure_leaves_a_dead_job_with_its_error(mp: Milepost, conn: Connection) -> None:
    @mp.worker("emails", retry=SOON)
    def send(job: TakenJob) -> None:
        raise ValueError("a bad \0 address")

    mp.put(conn, Job("emails", max_attempts=2))
    with working(send):
        wait_until(lambda: statuses(conn) == [("dead", 2, 2)])
    row = conn.execute("select last_error from milepost.jobs").fetchone()
    assert row == ("ValueError: a bad \\0 address",)


def test_what_is_retried_depends_on_the_exception(mp: Milepost, conn: Connection) -> None:
    @mp.worker("emails", retry={LookupError: None, OSError: Retry(limit=1, first_seconds=0)})
    def send(job: TakenJob) -> None:
        raise {"key": KeyError, "time": TimeoutError}[job.content]

    mp.put(conn, Job("emails", "key"), Job("emails", "time"))
    with working(send):
        wait_until(lambda: statuses(conn) == [("dead", 1, 1), ("dead", 2, 2)])


@pytest.mark.parametrize("is_raised", [True, False])
def test_a_deferred_job_comes_back_with_its_state_and_without_a_failure(
    mp: Milepost, conn: Connection, is_raised: bool
) -> None:
    seen: list[tuple[Any, int]] = []

    @mp.worker("emails")
    def send(job: TakenJob) -> Defer | None:
        seen.append((job.state, job.failures))
        if len(seen) == 3:
            return None
        defer = Defer(timedelta(milliseconds=5), state={"page": 1} if len(seen) == 1 else None)
        if is_raised:
            raise defer
        return defer

    mp.put(conn, Job("emails"))
    with working(send):
        wait_until(lambda: is_empty(conn))
    assert seen == [(None, 0), ({"page": 1}, 0), ({"page": 1}, 0)]


def test_a_job_that_yields_lets_the_others_of_its_channel_go_first(
    mp: Milepost, conn: Connection
) -> None:
    seen: list[str] = []

    @mp.worker("emails", concurrency=1, batch=1)
    def send(job: TakenJob) -> Yield | None:
        seen.append(job.content)
        return Yield() if seen == ["a"] else None

    mp.put(conn, *(Job("emails", name) for name in "abc"))
    mp.run(until="drained")
    assert seen == ["a", "b", "c", "a"]


def test_a_time_to_defer_until_is_absolute(mp: Milepost, conn: Connection) -> None:
    until = datetime.now(UTC) + timedelta(hours=1)

    @mp.worker("emails")
    def send(job: TakenJob) -> Defer:
        return Defer(until)

    mp.put(conn, Job("emails"))
    mp.run(until="drained")
    assert conn.execute("select run_at from milepost.jobs").fetchone() == (until,)
    with pytest.raises(ValueError, match="time zone"):
        Defer(datetime(2030, 1, 1))


@pytest.mark.parametrize("keep", [None, timedelta(hours=1)])
def test_cancel_ends_a_job_without_another_attempt(
    mp: Milepost, conn: Connection, keep: timedelta | None
) -> None:
    @mp.worker("emails")
    def send(job: TakenJob) -> None:
        raise Cancel("nobody wants it")

    mp.put(conn, Job("emails", keep_for=keep))
    mp.run(until="drained")
    conn.execute("select milepost.purge_finished()")
    assert [row[0] for row in statuses(conn)] == ([] if keep is None else ["cancelled"])


def test_a_result_is_kept_where_the_job_is(mp: Milepost, conn: Connection) -> None:
    @mp.worker("sums")
    def add(job: TakenJob) -> object:
        # What nobody keeps need not even be JSON.
        return sum(job.content) if job.is_kept else object()

    mp.put(conn, Job("sums", [1, 2], keep_for=timedelta(hours=1)), Job("sums", [3]))
    mp.run(until="drained")
    rows = conn.execute("select status::text, result from milepost.jobs").fetchall()
    assert rows == [("done", b"3")]


@pytest.mark.usefixtures("quick_heartbeats")
def test_a_handler_learns_that_its_job_is_cancelled(mp: Milepost, conn: Connection) -> None:
    begun, seen = threading.Event(), threading.Event()

    @mp.worker("emails", lock=LONG_LOCK)
    def send(job: TakenJob) -> None:
        begun.set()
        wait_until(lambda: job.cancelled)
        seen.set()
        raise Cancel

    (id_,) = mp.put(conn, Job("emails"))
    with working(send):
        assert begun.wait(PATIENCE_SECONDS)
        assert conn.execute("select milepost.cancel(%s::bigint[])", [[id_]]).fetchone() == (
            "cancelled",
        )
        assert seen.wait(PATIENCE_SECONDS)
        wait_until(lambda: is_empty(conn))


def test_a_stop_of_a_group_wakes_a_worker_that_rests(
    mp: Milepost, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "STOP_SECONDS", 3600.0)
    done = threading.Event()

    @mp.worker("seldom", poll_seconds=3600)
    def work(job: TakenJob) -> None:
        done.set()

    with working(work) as (running,):
        mp.put(conn, Job("seldom"))
        assert done.wait(PATIENCE_SECONDS)
        wait_until(lambda: is_empty(conn))
        running.stop.set()
        assert running.ends() is None


@pytest.mark.usefixtures("quick_heartbeats")
def test_heartbeats_keep_the_lock_of_a_slow_job(mp: Milepost, conn: Connection) -> None:
    """Its end is put off again and again; a second worker waits for its chance all along."""
    calls: list[int] = []
    is_free = threading.Event()

    @mp.worker("slow", lock=LONG_LOCK, poll_seconds=0.05)
    def slow(job: TakenJob) -> None:
        calls.append(job.attempt)
        assert is_free.wait(PATIENCE_SECONDS)

    mp.put(conn, Job("slow"))
    with working(slow, slow):
        wait_until(lambda: calls)
        for _ in range(3):
            until = locked_until(conn)
            wait_until(lambda until=until: locked_until(conn) > until)  # type: ignore[misc]
        conn.execute("select milepost.recover_expired()")
        assert statuses(conn) == [("running", 1, 0)]
        is_free.set()
        wait_until(lambda: is_empty(conn))
    assert calls == [1]


def locked_until(conn: Connection) -> datetime:
    found: datetime = one(conn.execute("select locked_until from milepost.jobs").fetchone())[0]
    return found


@pytest.mark.usefixtures("quick_heartbeats")
def test_a_handler_learns_that_it_lost_its_lock_and_can_change_nothing(
    mp: Milepost, conn: Connection
) -> None:
    lost: list[int] = []
    is_free = threading.Event()

    @mp.worker("emails", lock=LONG_LOCK, poll_seconds=0.05)
    def send(job: TakenJob) -> None:
        if job.attempt == 1:
            wait_until(lambda: job.lost)
            lost.append(job.attempt)
            return  # which completes nothing: it is the other attempt's
        assert is_free.wait(PATIENCE_SECONDS)

    mp.put(conn, Job("emails"))
    with working(send):
        wait_until(lambda: statuses(conn) == [("running", 1, 0)])
        expire_locks(conn)
        wait_until(lambda: statuses(conn) == [("running", 2, 1)])
        wait_until(lambda: lost)
        assert statuses(conn) == [("running", 2, 1)]
        is_free.set()
        wait_until(lambda: is_empty(conn))
    assert lost == [1]


def test_progress_is_seen_while_the_job_runs(mp: Milepost, conn: Connection) -> None:
    is_seen = threading.Event()

    @mp.worker("slow", lock=2.0)
    def slow(job: TakenJob) -> None:
        job.progress({"percent": 40})
        assert is_seen.wait(PATIENCE_SECONDS)

    mp.put(conn, Job("slow"))
    with working(slow):
        progress = "select progress from milepost.jobs"
        wait_until(lambda: conn.execute(progress).fetchone() == (b'{"percent":40}',))
        is_seen.set()
        wait_until(lambda: is_empty(conn))


def test_an_unknown_server_fails_at_once_and_a_bad_option_when_it_is_made(mp: Milepost) -> None:
    for options in ({"concurrency": 0}, {"lock": 0.0}, {"batch": 0}, {"poll_seconds": 0.0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            mp.worker("emails", **options)(print)
    with pytest.raises(ValueError, match="star"):
        mp.worker("ten*ant")(print)


def test_an_end_that_the_server_cannot_store_fails_its_job_alone(
    mp: Milepost, conn: Connection
) -> None:
    @mp.worker("emails")
    def send(job: TakenJob) -> Defer:
        return Defer(timedelta.max if job.content == 1 else timedelta(hours=1))

    mp.put(conn, *(Job("emails", n) for n in range(3)))
    mp.run(until="drained")
    assert [row[0] for row in statuses(conn)] == ["scheduled", "dead", "scheduled"]
