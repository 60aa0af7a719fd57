"""Begins of one channel keep their distance, not only takes."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from milepost import Job, Milepost, TakenJob
from milepost.db import AsyncConnection, Connection, one
from milepost.queue import Policy, put, set_channel
from milepost.queue.verbs import mark_begun, take
from milepost.records import BEGIN_AWAITED, Verdict
from tests.integration.queue.conftest import LONG_LOCK
from tests.integration.queue.jobs import expire
from tests.integration.queue.sabotage import take_out
from tests.integration.queue.verbs import complete, give_back
from tests.integration.queue.worker.working import working
from tests.waiting import wait_until

HOUR = timedelta(hours=1)


def closest(begins: list[float]) -> float:
    return min(later - sooner for sooner, later in pairwise(sorted(begins)))


@pytest.mark.parametrize(("seconds", "number"), [(0.02, 60), (0.5, 5)])
@pytest.mark.parametrize("kind", ["def", "async def", "def with tx", "async def with tx"])
def test_begins_keep_their_distance_over_several_workers(
    mp: Milepost, url: str, conn: Connection, seconds: float, number: int, kind: str
) -> None:
    """Jobs of other channels keep the handlers busy, so that a job that was taken begins later. Of
    the beginning the worker's own note counts: the handler may be held up before its first line."""
    begins: list[float] = []
    rng = random.Random(1)

    def begin(job: TakenJob) -> float:
        if job.channel == "w.slow":
            assert job.begun_at is not None
            assert job.begun_at <= time.monotonic()
            begins.append(job.begun_at)
            return 0.0
        return rng.random() * 0.03

    def work(job: TakenJob) -> None:
        time.sleep(begin(job))

    async def work_async(job: TakenJob) -> None:
        await asyncio.sleep(begin(job))

    def work_tx(job: TakenJob, tx: Connection) -> None:
        time.sleep(begin(job))

    async def work_tx_async(job: TakenJob, tx: AsyncConnection) -> None:
        await asyncio.sleep(begin(job))

    handlers: dict[str, Callable[..., Any]] = {
        "def": work,
        "async def": work_async,
        "def with tx": work_tx,
        "async def with tx": work_tx_async,
    }
    mp.set_channel("w.slow", release_interval=timedelta(seconds=seconds))
    mp.put(conn, *(Job("w.slow") for _ in range(number)))
    mp.put(conn, *(Job(f"w.busy{n % 3}") for n in range(3 * number)))
    apps = [Milepost(url) for _ in range(3)]
    workers = [app.worker("w.*", concurrency=2, poll_seconds=0.1)(handlers[kind]) for app in apps]
    with working(*workers):
        wait_until(lambda: len(begins) == number)
    assert closest(begins) >= seconds


def test_a_worker_waits_for_the_begin_of_a_job_that_another_has_taken(
    mp: Milepost, conn: Connection
) -> None:
    begins: list[float] = []
    others: list[int] = []

    @mp.worker("w.*", poll_seconds=0.05)
    def work(job: TakenJob) -> None:
        if job.channel == "w.slow":
            begins.append(time.monotonic())
        else:
            others.append(job.id)

    mp.set_channel("w.slow", release_interval=timedelta(seconds=0.05))
    mp.put(conn, Job("w.slow"), Job("w.slow"))
    let_pass(conn)
    (job,) = take(conn, 1, LONG_LOCK, "w.slow", is_ahead=True)
    with working(work):
        for n in range(10):  # it looks again and again
            let_pass(conn)
            mp.put(conn, Job("w.other"))
            wait_until(lambda n=n: len(others) > n)  # type: ignore[misc]
        assert begins == []
        assert mark_begun(conn, [begun(job)]) == [Verdict.DONE]
        wait_until(lambda: begins)
    assert begins[0] >= (job.begun_at or 0) + 0.05


def begun(job: TakenJob) -> TakenJob:
    job.begun_at = time.monotonic()
    return job


def awaited(conn: Connection) -> TakenJob:
    """Taken ahead from the channel c, which has another job."""
    set_channel(conn, "c", Policy(release_interval=HOUR))
    put(conn, Job("c"), Job("c"))
    conn.execute("update milepost.channels set next_release_at = clock_timestamp()")
    (job,) = take(conn, 9, is_ahead=True)
    assert job.begin_rules == BEGIN_AWAITED
    return job


def let_pass(conn: Connection) -> None:
    conn.execute("update milepost.channels set next_release_at = clock_timestamp()")


def test_without_its_guard_a_job_would_be_released_before_the_begin(conn: Connection) -> None:
    take_out(conn, "awaited begin")
    awaited(conn)
    let_pass(conn)
    assert len(take(conn, 9)) == 1


def test_nothing_is_released_before_the_begin_however_late_it_is(conn: Connection) -> None:
    job = awaited(conn)
    let_pass(conn)
    assert not take(conn, 9)
    assert mark_begun(conn, [job]) == [Verdict.DONE]  # it is about to begin, and has not yet
    let_pass(conn)
    assert not take(conn, 9)
    assert mark_begun(conn, [begun(job)]) == [Verdict.DONE]
    assert not take(conn, 9)
    let_pass(conn)
    assert len(take(conn, 9)) == 1


def test_the_interval_counts_from_the_begin_not_from_its_report(conn: Connection) -> None:
    job = awaited(conn)
    job.begun_at = time.monotonic() - 600
    let_pass(conn)
    mark_begun(conn, [job])
    left = "select extract(epoch from next_release_at - clock_timestamp()) from milepost.channels"
    seconds = float(one(conn.execute(left).fetchone())[0])
    assert 2950 < seconds < 3001


@pytest.mark.parametrize("end", [give_back, complete])
def test_what_ends_before_its_begin_frees_the_channel(conn: Connection, end: object) -> None:
    job = awaited(conn)
    assert callable(end)
    end(conn, [job])
    if end is complete:
        let_pass(conn)
    assert len(take(conn, 9)) == 1


def test_a_lost_worker_may_have_begun_at_the_end_of_its_lock(conn: Connection) -> None:
    job = awaited(conn)
    let_pass(conn)
    expire(conn, [job.id])
    assert not take(conn, 9)
    left = "select extract(epoch from next_release_at - clock_timestamp()) from milepost.channels"
    assert 3500 < float(one(conn.execute(left).fetchone())[0]) < 3600


def test_a_taker_that_does_not_take_ahead_begins_with_the_take(conn: Connection) -> None:
    set_channel(conn, "c", Policy(release_interval=HOUR))
    put(conn, Job("c"), Job("c"))
    let_pass(conn)
    (job,) = take(conn, 9)
    assert job.begin_rules == 0
    let_pass(conn)
    assert len(take(conn, 9)) == 1
