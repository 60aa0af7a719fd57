"""Workers within a budget of connections that is smaller than what they would like to have."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from milepost import Job, Message, Milepost, TakenJob, Yield
from milepost.db import AsyncConnection, Connection, one
from milepost.errors import BudgetTooSmall
from milepost.queue import Taker, pause_channel
from tests.connections import watching
from tests.integration.queue.conftest import LONG_LOCK
from tests.integration.queue.jobs import expire
from tests.integration.queue.worker.working import (
    PATIENCE_SECONDS,
    is_empty,
    statuses,
    working,
)
from tests.waiting import wait_until

OWN = 3  # the watcher, the settler, the heartbeats
colours = pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])


@colours
def test_more_handlers_than_connections_share_them(
    mp: Milepost, url: str, conn: Connection, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """And the worker says how many of its handlers run."""
    few = Milepost(url, max_connections=OWN + 3)

    def send(job: TakenJob, tx: Connection) -> None:
        few.append(tx, Message("Sent", job.content))

    async def send_async(job: TakenJob, tx: AsyncConnection) -> None:
        await few.append(tx, Message("Sent", job.content))

    worker = few.worker("emails", concurrency=10)(send_async if is_async else send)
    mp.put(conn, *(Job("emails", n) for n in range(300)))
    with watching(url, "milepost _%") as watch, working(worker):
        wait_until(lambda: is_empty(conn))
    assert sorted(message.data for message in mp.read()) == list(range(300))
    assert watch.most <= OWN + 3
    assert "concurrency=10, but runs only 2 handlers" in caplog.text
    assert "max_connections=14" in caplog.text


@pytest.mark.usefixtures("quick_heartbeats")
@colours
def test_handlers_that_have_all_connections_do_not_keep_their_locks_from_being_extended(
    url: str, conn: Connection, is_async: bool
) -> None:
    few = Milepost(url, max_connections=OWN + 5)
    is_free = threading.Event()

    def send(job: TakenJob, tx: Connection) -> None:
        assert is_free.wait(PATIENCE_SECONDS)

    async def send_async(job: TakenJob, tx: AsyncConnection) -> None:
        assert await asyncio.to_thread(is_free.wait, PATIENCE_SECONDS)

    worker = few.worker("emails", concurrency=4, lock=LONG_LOCK)(send_async if is_async else send)
    few.put(conn, *(Job("emails", n) for n in range(4)))
    with working(worker):
        wait_until(lambda: statuses(conn) == [("running", 1, 0)] * 4)
        earliest = "select min(locked_until) from milepost.jobs"
        before = one(conn.execute(earliest).fetchone())[0]
        wait_until(lambda: one(conn.execute(earliest).fetchone())[0] > before)
        assert statuses(conn) == [("running", 1, 0)] * 4
        is_free.set()
        wait_until(lambda: is_empty(conn))


@colours
def test_busy_handlers_do_not_keep_the_connections_from_another_worker(
    url: str, conn: Connection, is_async: bool
) -> None:
    """The jobs of the first one never end, and each needs a connection all the time."""
    few = Milepost(url, max_connections=OWN + 2)
    is_over, seen = threading.Event(), threading.Event()

    def repeat(job: TakenJob, tx: Connection) -> Yield | None:
        return None if is_over.is_set() else Yield()

    async def repeat_async(job: TakenJob, tx: AsyncConnection) -> Yield | None:
        return None if is_over.is_set() else Yield()

    busy = few.worker("busy", concurrency=8)(repeat_async if is_async else repeat)

    @few.worker("rare")
    def rare(job: TakenJob, tx: Connection) -> None:
        seen.set()

    few.put(conn, *(Job("busy", n) for n in range(40)))
    with working(busy, rare):
        for _ in range(5):
            seen.clear()
            few.put(conn, Job("rare"))
            assert seen.wait(PATIENCE_SECONDS)
        is_over.set()
        wait_until(lambda: is_empty(conn))


def test_no_job_is_taken_that_would_wait_for_a_connection(url: str, conn: Connection) -> None:
    few = Milepost(url, max_connections=OWN + 1)
    begun, is_free = threading.Event(), threading.Event()

    @few.worker("emails", concurrency=3, lock=60.0)
    def send(job: TakenJob, tx: Connection) -> None:
        begun.set()
        assert is_free.wait(PATIENCE_SECONDS)

    few.put(conn, *(Job("emails", n) for n in range(3)))
    with working(send) as (worker,):
        assert begun.wait(PATIENCE_SECONDS)
        worker.stop.set()
        assert sorted(statuses(conn)) == [("ready", 0, 0)] * 2 + [("running", 1, 0)]
        # The worker's thread may notice the free connection before it notices the stop.
        pause_channel(conn, "emails")
        is_free.set()
        worker.ends()
    assert [(status, failures) for status, _, failures in statuses(conn)] == [("ready", 0)] * 2


def test_a_budget_without_a_connection_for_jobs_is_refused(url: str, mp: Milepost) -> None:
    few = Milepost(url, max_connections=OWN)
    with pytest.raises(BudgetTooSmall, match="needs at least 4"):
        few.worker("emails")(print).run("drained")


def test_what_is_recovered_is_logged_once_whoever_had_the_connection_before(
    url: str, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Two workers with one connection take it over from each other again and again."""
    few = Milepost(url, max_connections=OWN + 1)

    def send(job: TakenJob) -> None:
        pass

    first = few.worker("emails", poll_seconds=0.05)(send)
    second = few.worker("other", poll_seconds=0.05)(send)
    (id_,) = few.put(conn, Job("emails", run_at=timedelta(0)))
    Taker("emails", LONG_LOCK).take(conn, 1)
    with working(first, second):
        for n in range(20):
            few.put(conn, Job("other", n), Job("emails", n))
            wait_until(lambda: len(statuses(conn)) == 1)
        expire(conn, [id_])
        wait_until(lambda: is_empty(conn))
    texts = [r.getMessage() for r in caplog.records if r.name == "milepost.queue"]
    assert [text for text in texts if f"job={id_} " in text] == texts
    assert len(texts) == 1
