"""Handlers that run for longer than their worker's timeout."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import psycopg
import pytest

from milepost import Job, JobTimedOut, Milepost, Retry, TakenJob
from milepost.db import AsyncConnection, Connection, one
from milepost.errors import TooManyAbandoned
from tests.integration.queue.jobs import column, status
from tests.integration.queue.worker.working import (
    PATIENCE_SECONDS,
    Working,
    first_done,
    is_empty,
    statuses,
    working,
)
from tests.waiting import wait_until

SHORT = 0.3
NEVER: dict[type[BaseException], Retry | None] = {JobTimedOut: None}


def last_error(conn: Connection) -> str:
    return str(one(conn.execute("select last_error from milepost.jobs").fetchone())[0])


def test_an_async_handler_is_interrupted_and_may_clean_up(mp: Milepost, conn: Connection) -> None:
    cleaned: list[int] = []

    @mp.worker("slow", timeout=SHORT, retry=NEVER, concurrency=1)
    async def slow(job: TakenJob) -> None:
        try:
            await asyncio.sleep(PATIENCE_SECONDS if job.content == "hang" else 0)
        finally:
            cleaned.append(job.id)

    hanging, quick = mp.put(conn, Job("slow", "hang"), Job("slow"))
    with working(slow):
        wait_until(lambda: status(conn, hanging) == "dead")
        error = column(conn, hanging, "last_error")
        assert "JobTimedOut: The handler of job 1 ran for more than 0.3 s" in error
        wait_until(lambda: cleaned == [hanging, quick])
        first_done(mp, conn, "slow")


def test_an_async_transaction_is_rolled_back(mp: Milepost, conn: Connection) -> None:
    conn.execute("create table effects (job bigint)")

    @mp.worker("slow", timeout=SHORT, retry=Retry(first_seconds=0))
    async def slow(job: TakenJob, tx: AsyncConnection) -> None:
        await tx.execute("insert into effects values (%s)", [job.id])
        if job.attempt == 1:
            await tx.execute("select pg_sleep(60)")

    mp.put(conn, Job("slow"))
    with working(slow):
        wait_until(lambda: is_empty(conn))
    assert conn.execute("select count(*) from effects").fetchone() == (1,)


def test_an_async_handler_that_goes_on_is_reported_and_what_it_returns_counts(
    mp: Milepost, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    @mp.worker("slow", timeout=SHORT, retry=NEVER)
    async def slow(job: TakenJob) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(PATIENCE_SECONDS)
        await asyncio.sleep(0.01)

    mp.put(conn, Job("slow"))
    with working(slow):
        wait_until(lambda: is_empty(conn))
    assert "its handler went on though JobTimedOut" in caplog.text


def test_a_handler_in_a_thread_is_abandoned_and_can_change_nothing(
    mp: Milepost, conn: Connection
) -> None:
    """Its place is taken by another thread: the only one, here."""
    is_free, lost, quick = threading.Event(), threading.Event(), threading.Event()

    @mp.worker("slow", timeout=SHORT, retry=NEVER, concurrency=1)
    def slow(job: TakenJob) -> None:
        if job.content == "hang":
            assert is_free.wait(PATIENCE_SECONDS)
            if job.lost:
                lost.set()
        else:
            quick.set()

    hanging, _ = mp.put(conn, Job("slow", "hang"), Job("slow"))
    with working(slow):
        assert quick.wait(PATIENCE_SECONDS)
        wait_until(lambda: status(conn, hanging) == "dead")
        first_done(mp, conn, "slow")
        is_free.set()
        assert lost.wait(PATIENCE_SECONDS)
    assert statuses(conn)[0] == ("dead", 1, 1)


@pytest.mark.parametrize("waits_for", ["the server", "something else"])
def test_the_transaction_of_an_abandoned_handler_is_ended_from_outside(
    mp: Milepost, url: str, conn: Connection, waits_for: str
) -> None:
    """While it hangs: its locks are released, and its connection does not count any more."""
    conn.execute("create table effects (job bigint)")
    few = Milepost(url, max_connections=5)  # one handler
    is_free, ended = threading.Event(), threading.Event()

    @few.worker("slow", timeout=SHORT, retry=NEVER, concurrency=1)
    def slow(job: TakenJob, tx: Connection) -> None:
        if job.content != "hang":
            tx.execute("insert into effects values (%s)", [job.id])
            return
        try:
            tx.execute("insert into effects values (%s)", [job.id])
            tx.execute("lock table effects in share row exclusive mode")
            if waits_for == "the server":
                tx.execute("select pg_sleep(60)")
            assert is_free.wait(PATIENCE_SECONDS)
            with pytest.raises(psycopg.OperationalError):
                tx.execute("select 1")
        finally:
            ended.set()

    mp.put(conn, Job("slow", "hang"))
    with working(slow):
        wait_until(lambda: statuses(conn) == [("dead", 1, 1)])
        conn.execute("insert into effects values (0)")  # nobody holds the lock
        done = first_done(mp, conn, "slow")
        is_free.set()
        assert ended.wait(PATIENCE_SECONDS)
    assert conn.execute("select job from effects order by 1").fetchall() == [(0,), (done,)]


def test_a_worker_that_leaves_too_many_threads_behind_ends_loudly(
    mp: Milepost, conn: Connection
) -> None:
    is_free = threading.Event()

    @mp.worker("slow", timeout=0.05, retry=NEVER, concurrency=10)
    def slow(job: TakenJob) -> None:
        is_free.wait(PATIENCE_SECONDS)

    mp.put(conn, *(Job("slow", n) for n in range(30)))
    worker = Working(slow)
    try:
        error = worker.ends()
        assert isinstance(error, TooManyAbandoned)
        assert " handlers timed out and still run, in threads" in str(error)
    finally:
        is_free.set()


def test_a_timeout_that_is_none_is_refused(mp: Milepost) -> None:
    with pytest.raises(ValueError, match="timeout is 0"):
        mp.worker("emails", timeout=0)(print)


@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_cancelled_job_interrupts_an_async_handler(
    mp: Milepost, conn: Connection, is_transactional: bool
) -> None:
    """Long before the next heartbeat: its lock is an hour."""
    begun, after = threading.Event(), threading.Event()

    async def hang(job: TakenJob) -> None:
        if job.content == "next":
            await asyncio.sleep(0)
            after.set()
            return
        begun.set()
        await asyncio.sleep(PATIENCE_SECONDS)

    async def hang_tx(job: TakenJob, tx: AsyncConnection) -> None:
        await hang(job)

    worker = mp.worker("slow", lock=3600.0, concurrency=1)(hang_tx if is_transactional else hang)
    (id_, _) = mp.put(conn, Job("slow"), Job("slow", "next"))
    with working(worker):
        assert begun.wait(PATIENCE_SECONDS)
        conn.execute("select milepost.cancel(%s::bigint[])", [[id_]])
        assert after.wait(PATIENCE_SECONDS)
        wait_until(lambda: is_empty(conn))


@pytest.mark.parametrize("listen", [True, False], ids=["notified", "polling"])
def test_a_worker_learns_of_a_cancellation_long_before_its_next_heartbeat(
    mp: Milepost, conn: Connection, listen: bool
) -> None:
    begun, seen = threading.Event(), threading.Event()

    @mp.worker("slow", lock=3600.0, listen=listen)
    def slow(job: TakenJob) -> None:
        begun.set()
        wait_until(lambda: job.cancelled)
        seen.set()

    (id_,) = mp.put(conn, Job("slow"))
    with working(slow):
        assert begun.wait(PATIENCE_SECONDS)
        conn.execute("select milepost.cancel(%s::bigint[])", [[id_]])
        assert seen.wait(PATIENCE_SECONDS)
        wait_until(lambda: is_empty(conn))


def test_many_cancellations_are_seen_too(mp: Milepost, conn: Connection) -> None:
    """Their ids do not fit into the notification."""
    begun = threading.Semaphore(0)

    @mp.worker("slow", lock=3600.0, concurrency=300)
    async def slow(job: TakenJob) -> None:
        begun.release()
        await asyncio.sleep(PATIENCE_SECONDS)

    ids = mp.put(conn, *(Job("slow") for _ in range(250)))
    with working(slow):
        for _ in ids:
            assert begun.acquire(timeout=PATIENCE_SECONDS)
        conn.execute("select milepost.cancel(%s::bigint[])", [ids])
        wait_until(lambda: is_empty(conn))


@pytest.mark.parametrize("is_async", [False, True])
def test_a_task_has_a_timeout_of_its_own(mp: Milepost, conn: Connection, is_async: bool) -> None:
    """It comes before that of the channel, and other tasks have none."""
    is_free = threading.Event()
    mp.task_channel("tasks", retry=NEVER)

    def hang() -> None:
        assert is_free.wait(PATIENCE_SECONDS)

    def wait_a_little() -> None:
        assert not is_free.wait(3 * SHORT)

    async def hang_async() -> None:
        await asyncio.sleep(PATIENCE_SECONDS)

    async def wait_a_little_async() -> None:
        await asyncio.sleep(3 * SHORT)

    limited = mp.task(name="hang", timeout=SHORT)(hang_async if is_async else hang)
    free = mp.task(name="wait")(wait_a_little_async if is_async else wait_a_little)
    for task in (free, limited):
        task.put(conn)
    with working(mp.workers["tasks"]):
        wait_until(lambda: statuses(conn) == [("dead", 1, 1)])
        is_free.set()
    assert "ran for more than 0.3 s" in last_error(conn)


def test_a_task_refuses_a_timeout_of_0(mp: Milepost) -> None:
    with pytest.raises(ValueError, match="timeout is 0: expected more than 0 seconds"):
        mp.task(name="send", timeout=0)(print)
