"""Workers through PgBouncer in transaction mode: they poll, and every job is done once."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from threading import Event, Lock
from typing import Any

import pytest

from milepost import Cancel, Defer, Job, Milepost, Repeat, Retry, TakenJob, db
from milepost.db import AsyncConnection, Connection
from milepost.queue.worker import heartbeats
from milepost.sql import LogOrder
from tests.integration.queue.worker.working import is_empty, statuses, working
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
QUICK = Retry(limit=5, first_seconds=0.01, longest_seconds=0.05)
JOBS = 1000
LOCK_SECONDS = 3600.0  # beyond what a busy machine may hold a heartbeat up
BEAT_SECONDS = 0.1


@pytest.fixture
def order() -> LogOrder:
    return "append"


@pytest.fixture
def effects(conn: Connection) -> Connection:
    conn.execute("create table effects (n int not null)")
    return conn


def done(conn: Connection) -> list[int]:
    return [row[0] for row in conn.execute("select n from effects order by n").fetchall()]


def test_a_thousand_jobs_are_each_done_once(
    pooled: Milepost, pooled_conn: Connection, conn: Connection
) -> None:
    """Some defer themselves, some fail at first, some are cancelled."""
    seen: Counter[int] = Counter()
    lock = Lock()

    @pooled.worker("emails", retry=QUICK, poll_seconds=0.05)
    def send(job: TakenJob) -> Any:
        with lock:
            seen[job.content] += 1
        if job.content % 10 == 1 and job.state is None:
            return Defer(timedelta(seconds=0.01), {"deferred": True})
        if job.content % 10 == 2 and seen[job.content] < 3:
            raise ValueError("not yet")
        if job.content % 10 == 3:
            raise Cancel
        return None

    with pooled_conn.transaction():
        pooled.put(pooled_conn, *(Job("emails", n) for n in range(JOBS // 2)))
    for n in range(JOBS // 2, JOBS):
        pooled.put(pooled_conn, Job("emails", n))
    with pooled_conn.transaction(force_rollback=True):
        pooled.put(pooled_conn, Job("emails", -1))
    with working(send):
        wait_until(lambda: is_empty(conn))
    times = {0: 1, 1: 2, 2: 3, 3: 1}
    assert seen == {n: times.get(n % 10, 1) for n in range(JOBS)}


def test_effects_in_the_jobs_transaction_happen_once(pooled: Milepost, effects: Connection) -> None:
    @pooled.worker("emails", retry=QUICK, poll_seconds=0.05)
    def send(job: TakenJob, tx: Connection) -> None:
        tx.execute("insert into effects values (%s)", [job.content])
        if job.content % 10 == 0 and job.failures == 0:
            raise ValueError("rolled back")

    pooled.put(effects, *(Job("emails", n) for n in range(JOBS)))
    with working(send):
        wait_until(lambda: is_empty(effects))
    assert done(effects) == list(range(JOBS))


def test_coroutines_have_transactions_too(pooled: Milepost, effects: Connection) -> None:
    @pooled.worker("emails", poll_seconds=0.05)
    async def send(job: TakenJob, tx: AsyncConnection) -> None:
        await tx.execute("insert into effects values (%s)", [job.content])

    pooled.put(effects, *(Job("emails", n) for n in range(200)))
    send.run(until="drained")
    assert done(effects) == list(range(200))


def test_heartbeats_keep_the_lock_of_a_slow_handler(
    pooled: Milepost, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "BEATS_PER_LOCK", LOCK_SECONDS / BEAT_SECONDS)
    is_free, begun = Event(), Event()
    lost: list[bool] = []
    ends: set[datetime] = set()

    @pooled.worker("emails", lock=LOCK_SECONDS, poll_seconds=0.05)
    def send(job: TakenJob) -> None:
        begun.set()
        assert is_free.wait(60)
        lost.append(job.lost)

    def is_extended_again_and_again() -> bool:
        """Once is not enough: what tells that a job has begun extends its lock, too."""
        ends.add(db.one(conn.execute("select locked_until from milepost.jobs").fetchone())[0])
        return len(ends) > 3

    pooled.put(conn, Job("emails"))
    with working(send):
        assert begun.wait(30)
        wait_until(is_extended_again_and_again)
        assert statuses(conn) == [("running", 1, 0)]
        is_free.set()
        wait_until(lambda: is_empty(conn))
    assert lost == [False]


def test_a_worker_finds_what_is_put_while_it_waits(
    pooled: Milepost, pooled_conn: Connection
) -> None:
    """Nothing is listened to, though nobody asked for listen=False."""
    seen: list[int] = []

    @pooled.worker("emails", poll_seconds=0.05)
    def send(job: TakenJob) -> None:
        seen.append(job.content)

    with working(send):
        for number in range(20):
            pooled.put(pooled_conn, Job("emails", number))
            wait_until(lambda n=number: len(seen) == n + 1)  # type: ignore[misc]


def test_listen_false_is_enough_for_a_worker(
    unmarked_url: str, conn: Connection, mp: Milepost
) -> None:
    seen: list[int] = []
    through = Milepost(unmarked_url)

    @through.worker("emails", listen=False, poll_seconds=0.05)
    def send(job: TakenJob) -> None:
        seen.append(job.content)

    mp.put(conn, *(Job("emails", n) for n in range(100)))
    with working(send):
        wait_until(lambda: is_empty(conn))
    assert sorted(seen) == list(range(100))


def test_a_task_is_put_run_and_waited_for(pooled: Milepost, pooled_conn: Connection) -> None:
    @pooled.task(keep_for=timedelta(hours=1))
    def add(a: int, b: int) -> int:
        return a + b

    pooled.task_channel("tasks", poll_seconds=0.05)
    handle = add.put(pooled_conn, 20, b=22)
    with working(pooled.workers["tasks"]):
        assert handle.wait() == 42


def test_lists_of_jobs_have_transactions_too(pooled: Milepost, effects: Connection) -> None:
    @pooled.worker("emails", handle="batch", batch=10, poll_seconds=0.05)
    def send(jobs: list[TakenJob], tx: Connection) -> None:
        for job in jobs:
            tx.execute("insert into effects values (%s)", [job.content])

    pooled.put(effects, *(Job("emails", n) for n in range(50)))
    with working(send):
        wait_until(lambda: is_empty(effects))
    assert done(effects) == list(range(50))


def test_schedules_tick(pooled: Milepost, conn: Connection) -> None:
    seen: list[str] = []

    @pooled.worker("chores", poll_seconds=0.05)
    def clean(job: TakenJob) -> None:
        seen.append(job.content)

    pooled.schedule("cleanup", Repeat(every=timedelta(seconds=0.2)), Job("chores", "cleanup"))
    with working(*pooled.members()):
        wait_until(lambda: len(seen) >= 3)


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_job_has_set_is_not_in_the_session_that_another_client_gets(
    pooled: Milepost, conn: Connection, is_async: bool
) -> None:
    """Checked in all sessions by the fixture, and here by the jobs themselves."""
    settings = "set statement_timeout = '77s'; set search_path = nowhere"
    look = "select current_setting('statement_timeout'), current_setting('search_path')"
    seen: list[Any] = []

    def leave(job: TakenJob, tx: Connection) -> None:
        seen.append(tx.execute(look).fetchone())
        tx.execute(settings)

    async def leave_async(job: TakenJob, tx: AsyncConnection) -> None:
        seen.append(await (await tx.execute(look)).fetchone())
        await tx.execute(settings)

    handler = leave_async if is_async else leave
    worker = pooled.worker("emails", retry=QUICK, poll_seconds=0.05)(handler)
    pooled.put(conn, *(Job("emails", n) for n in range(50)))
    with working(worker):
        wait_until(lambda: is_empty(conn))
    assert seen == [("0", '"$user", public')] * 50


def test_a_running_job_is_cancelled_without_a_notification(
    pooled: Milepost, conn: Connection
) -> None:
    begun = Event()

    @pooled.worker("emails", lock=3600.0, poll_seconds=0.05)
    async def hang(job: TakenJob) -> None:
        begun.set()
        await asyncio.sleep(60)

    (id_,) = pooled.put(conn, Job("emails"))
    with working(hang):
        assert begun.wait(30)
        conn.execute("select milepost.cancel(%s::bigint[])", [[id_]])
        wait_until(lambda: is_empty(conn))
