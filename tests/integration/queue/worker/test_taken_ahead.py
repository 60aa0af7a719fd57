"""What a worker has taken ahead is not kept from others while its own handlers are busy."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest

from milepost import Job, Milepost, TakenJob
from milepost.db import Connection
from tests.integration.queue.worker.working import PATIENCE_SECONDS, statuses, working
from tests.waiting import wait_until

QUICK = range(200)  # they make the worker take many at a time
SLOW = 200
LATER = range(201, 221)


@pytest.mark.parametrize(("is_async", "concurrency"), [(False, 1), (True, 1), (True, 4)])
def test_jobs_taken_ahead_go_back_while_the_handlers_are_busy(
    mp: Milepost, conn: Connection, is_async: bool, concurrency: int
) -> None:
    """The handler of all tasks is busy, if one keeps their event loop."""
    is_free, has_begun = threading.Event(), threading.Event()
    done: list[int] = []

    def send(job: TakenJob) -> None:
        if job.content == SLOW:
            has_begun.set()
            assert is_free.wait(PATIENCE_SECONDS)
        done.append(job.content)

    async def send_async(job: TakenJob) -> None:
        send(job)

    mp.put(conn, *(Job("emails", n) for n in (*QUICK, SLOW, *LATER)))
    handler = send_async if is_async else send
    first = mp.worker("emails", concurrency=concurrency)(handler)
    second = mp.worker("email*", concurrency=1)(handler)
    with working(first):
        assert has_begun.wait(PATIENCE_SECONDS)
        with working(second):
            wait_until(lambda: set(done) == {*QUICK, *LATER})
            wait_until(lambda: len(statuses(conn)) == 1)
        assert statuses(conn) == [("running", 1, 0)]
        is_free.set()
    assert sorted(done) == [*QUICK, SLOW, *LATER]


SLOW_JOBS = 40
SLOW_SECONDS = 0.25  # handlers that begin a job so often do not stand still


def put_quick_and_slow(mp: Milepost, conn: Connection) -> None:
    mp.put(conn, *(Job("c", seconds) for seconds in [0] * len(QUICK) + [SLOW_SECONDS] * SLOW_JOBS))


def test_a_job_of_another_channel_and_a_more_urgent_one_do_not_wait_for_what_is_held(
    mp: Milepost, conn: Connection
) -> None:
    begun: list[str] = []

    @mp.worker("*", concurrency=1)
    def send(job: TakenJob) -> None:
        begun.append("slow" if job.content else job.unique_key or "quick")
        time.sleep(job.content)

    put_quick_and_slow(mp, conn)
    with working(send):
        wait_until(lambda: "slow" in begun)
        new = Job("new", 0, unique_key="new")
        mp.put(conn, new, Job("c", 0, priority=-1, unique_key="urgent"))
        wait_until(lambda: {"new", "urgent"} <= set(begun))
        assert begun.count("slow") < SLOW_JOBS / 4


def test_a_second_worker_gets_its_share_of_slow_jobs(mp: Milepost, conn: Connection) -> None:
    begun: Counter[str] = Counter()

    def send(worker: str, job: TakenJob) -> None:
        begun[worker if job.content else "quick"] += 1
        time.sleep(job.content)

    first = mp.worker("*", concurrency=1)(lambda job: send("first", job))
    second = mp.worker("c*", concurrency=1)(lambda job: send("second", job))
    put_quick_and_slow(mp, conn)
    with working(first):
        wait_until(lambda: begun["first"])
        with working(second):
            wait_until(lambda: begun["first"] + begun["second"] == SLOW_JOBS)
    assert begun["second"] > SLOW_JOBS / 4
