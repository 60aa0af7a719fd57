"""What a worker has taken ahead is not kept from others while its own handlers are busy."""

from __future__ import annotations

import threading

import pytest

from milepost import Job, Milepost, TakenJob
from milepost.db import Connection
from tests.integration.queue.worker.working import PATIENCE_SECONDS, statuses, working
from tests.waiting import wait_until

QUICK = range(200)  # they make the worker take many at a time
SLOW = 200
LATER = range(201, 221)


@pytest.mark.parametrize("is_async", [False, True])
def test_jobs_taken_ahead_go_back_while_the_handlers_are_busy(
    mp: Milepost, conn: Connection, is_async: bool
) -> None:
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
    first = mp.worker("emails", concurrency=1)(handler)
    second = mp.worker("email*", concurrency=1)(handler)
    with working(first):
        assert has_begun.wait(PATIENCE_SECONDS)
        with working(second):
            wait_until(lambda: set(done) == {*QUICK, *LATER})
            wait_until(lambda: len(statuses(conn)) == 1)
        assert statuses(conn) == [("running", 1, 0)]
        is_free.set()
    assert sorted(done) == [*QUICK, SLOW, *LATER]
