"""Batching handlers: lists of jobs, an answer for each."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from milepost import Cancel, Defer, Failure, Job, Milepost, Retry, TakenJob, db
from milepost.db import AsyncConnection, Connection
from milepost.errors import JobFailed, JobTimedOut
from milepost.queue.worker.calling.batches import BatchThreads
from tests.integration.queue.jobs import expire, running, status
from tests.integration.queue.worker.working import (
    PATIENCE_SECONDS,
    expire_locks,
    first_done,
    is_empty,
    statuses,
    working,
)
from tests.waiting import wait_until

SOON = Retry(first_seconds=0.01, longest_seconds=0.05)
KEPT = timedelta(hours=1)


def put(mp: Milepost, conn: Connection, count: int, **options: Any) -> list[int]:
    """In one transaction, so that they are seen together."""
    with conn.transaction():
        return mp.put(conn, *(Job("emails", n, **options) for n in range(count)))


def test_a_batching_handler_is_given_lists_up_to_its_batch(mp: Milepost, conn: Connection) -> None:
    lists: list[list[int]] = []

    @mp.worker("emails", handle="batch", batch=10, concurrency=1)
    def send(jobs: list[TakenJob]) -> None:
        lists.append([job.content for job in jobs])

    put(mp, conn, 25)
    with working(send):
        wait_until(lambda: is_empty(conn))
    assert sorted(number for numbers in lists for number in numbers) == list(range(25))
    assert len(lists[0]) == 10
    assert max(map(len, lists)) == 10


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("has_tx", [False, True])
def test_each_job_ends_as_was_answered_for_it(
    mp: Milepost, conn: Connection, is_async: bool, has_tx: bool
) -> None:
    def answer(jobs: list[TakenJob]) -> dict[TakenJob, Any]:
        said = {
            0: {"sent": True},
            1: Failure(ValueError("no address")),
            2: Defer(timedelta(hours=1)),
            3: Cancel("not wanted"),
            5: object(),
            6: Defer(timedelta.max),
        }
        return {job: said[job.content] for job in jobs if job.content in said}

    options: Any = {"handle": "batch", "batch": 10, "retry": {ValueError: None}}
    if is_async and has_tx:

        @mp.worker("emails", **options)
        async def worker_a(jobs: list[TakenJob], tx: AsyncConnection) -> Any:
            await tx.execute("select 1")
            return answer(jobs)

    elif is_async:

        @mp.worker("emails", **options)
        async def worker_b(jobs: list[TakenJob]) -> Any:
            return answer(jobs)

    elif has_tx:

        @mp.worker("emails", **options)
        def worker_c(jobs: list[TakenJob], tx: Connection) -> Any:
            return answer(jobs)

    else:

        @mp.worker("emails", **options)
        def worker_d(jobs: list[TakenJob]) -> Any:
            return answer(jobs)

    ids = put(mp, conn, 7, keep_for=KEPT)
    with working(mp.workers["emails"]):
        wait_until(lambda: status(conn, ids[4]) in ("done", "dead"))
        wait_until(lambda: not running(conn, "emails"))
    assert [status(conn, id_) for id_ in ids] == [
        "done", "dead", "scheduled", "cancelled", "done", "dead", "dead",
    ]  # fmt: skip
    assert mp.result(ids[0]) == {"sent": True}
    assert mp.result(ids[4]) is None
    with pytest.raises(JobFailed, match="ValueError: no address"):
        mp.result(ids[1])
    with pytest.raises(JobFailed, match="its result cannot be stored"):
        mp.result(ids[5])


@pytest.mark.parametrize("has_tx", [False, True])
def test_a_job_that_fails_its_list_is_alone_afterwards_and_fails_nobody_else(
    mp: Milepost, conn: Connection, has_tx: bool
) -> None:
    lists: list[list[int]] = []

    def handle(jobs: list[TakenJob]) -> None:
        lists.append([job.content for job in jobs])
        if any(job.content == 3 for job in jobs):
            raise ValueError("poison")

    options: Any = {"handle": "batch", "batch": 10, "retry": SOON, "concurrency": 2}
    if has_tx:

        @mp.worker("emails", **options)
        def with_tx(jobs: list[TakenJob], tx: Connection) -> None:
            handle(jobs)

    else:
        mp.worker("emails", **options)(handle)
    put(mp, conn, 8, max_attempts=4)
    with working(mp.workers["emails"]):
        wait_until(lambda: statuses(conn) == [("dead", 4, 4)])
    assert len(lists[0]) == 8
    assert Counter(map(len, lists[1:])) == {1: 7 + 3}
    assert lists.count([3]) == 3


def test_with_a_transaction_effects_and_completions_are_one_commit(
    mp: Milepost, conn: Connection
) -> None:
    conn.execute("create table sent (number integer)")

    @mp.worker("emails", handle="batch", batch=10, retry=SOON)
    def send(jobs: list[TakenJob], tx: Connection) -> None:
        with tx.cursor() as cursor:
            cursor.executemany("insert into sent values (%s)", [[job.content] for job in jobs])
        if any(job.attempt == 1 for job in jobs):
            raise TimeoutError("after its effects")

    put(mp, conn, 5)
    with working(send):
        wait_until(lambda: is_empty(conn))
    found = conn.execute("select number from sent order by number").fetchall()
    assert found == [(n,) for n in range(5)]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_lock_lost_while_a_list_is_handled_undoes_the_list_and_the_others_are_handled_again(
    mp: Milepost, conn: Connection, url: str, is_async: bool
) -> None:
    """The fence: without it the effects of the job that another worker has by now would stay."""
    conn.execute("create table sent (number integer, calls integer)")
    calls: list[list[int]] = []
    statement = "insert into sent values (%s, %s)"

    def steal(jobs: list[TakenJob]) -> None:
        """Another worker takes the job 2 away, and has not finished it."""
        calls.append([job.content for job in jobs])
        if len(calls) == 1:
            with db.connect(url) as other, other.transaction():  # no heartbeat comes between
                expire(other, [job.id for job in jobs if job.content == 2])
                other.execute("select milepost.recover_expired()")
                other.execute(
                    "update milepost.jobs set channel = 'elsewhere' where status = 'ready'"
                )

    options: Any = {"handle": "batch", "batch": 10, "concurrency": 1}
    if is_async:

        @mp.worker("emails", **options)
        async def send_async(jobs: list[TakenJob], tx: AsyncConnection) -> None:
            for job in jobs:
                await tx.execute(statement, [job.content, len(calls)])
            steal(jobs)

    else:

        @mp.worker("emails", **options)
        def send(jobs: list[TakenJob], tx: Connection) -> None:
            for job in jobs:
                tx.execute(statement, [job.content, len(calls)])
            steal(jobs)

    put(mp, conn, 4)
    with working(mp.workers["emails"]):
        wait_until(lambda: len(statuses(conn)) == 1)
        wait_until(lambda: len(calls) == 2)
    assert calls == [[0, 1, 2, 3], [0, 1, 3]]
    found = conn.execute("select number, calls from sent order by number").fetchall()
    assert found == [(0, 1), (1, 1), (3, 1)]
    assert [status for status, *_ in statuses(conn)] == ["ready"]


def test_a_handler_that_ends_its_transaction_has_all_its_jobs_dead(
    mp: Milepost, conn: Connection
) -> None:
    @mp.worker("emails", handle="batch", batch=10)
    def send(jobs: list[TakenJob], tx: Connection) -> None:
        tx.execute("commit")

    ids = put(mp, conn, 3)
    with working(send):
        wait_until(lambda: [status(conn, id_) for id_ in ids] == ["dead"] * 3)
    errors = conn.execute("select id, last_error from milepost.jobs").fetchall()
    assert all(f"handler of job {id_} ended its own transaction" in error for id_, error in errors)


def test_an_answer_that_is_none_fails_the_list(mp: Milepost, conn: Connection) -> None:
    @mp.worker("emails", handle="batch", batch=10)
    def send(jobs: list[TakenJob]) -> Any:
        return [True for _ in jobs]

    (id_,) = put(mp, conn, 1, max_attempts=1)
    with working(send):
        wait_until(lambda: status(conn, id_) == "dead")
    (error,) = conn.execute("select last_error from milepost.jobs").fetchone() or ("",)
    assert "returned list: expected None" in error


def test_jobs_that_are_stopped_before_their_list_begins_are_given_back(
    mp: Milepost, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Suspects wait for the list before them; a stop in between gives them back."""
    begun, is_closed = threading.Event(), threading.Event()
    close = BatchThreads.close

    def closing(pool: BatchThreads) -> None:
        pool._is_closed = True
        is_closed.set()
        close(pool)

    monkeypatch.setattr(BatchThreads, "close", closing)
    lists: list[list[int]] = []

    @mp.worker("emails", handle="batch", batch=10, concurrency=1)
    def send(jobs: list[TakenJob]) -> None:
        lists.append([job.content for job in jobs])
        begun.set()
        assert is_closed.wait(30)

    put(mp, conn, 3)
    conn.execute("update milepost.jobs set failures = 1 where content <> '0'")
    with working(send):
        assert begun.wait(30)
    assert lists == [[0]]
    assert statuses(conn) == [("ready", 1, 1)] * 2


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("has_tx", [False, True])
def test_a_list_whose_time_is_up_fails_and_the_worker_goes_on(
    mp: Milepost, conn: Connection, is_async: bool, has_tx: bool
) -> None:
    is_free = threading.Event()
    lists: list[list[int]] = []

    def is_slow(jobs: list[TakenJob]) -> bool:
        lists.append([job.content for job in jobs])
        return any(job.content == 1 for job in jobs)

    options: Any = {
        "handle": "batch",
        "batch": 3,
        "timeout": 0.3,
        "concurrency": 1,
        "retry": {JobTimedOut: None},
    }
    if is_async:

        async def send_async(jobs: list[TakenJob]) -> None:
            if is_slow(jobs):
                await asyncio.sleep(60)

        async def send_async_in(jobs: list[TakenJob], tx: AsyncConnection) -> None:
            await send_async(jobs)

        mp.worker("emails", **options)(send_async_in if has_tx else send_async)
    else:

        def send(jobs: list[TakenJob]) -> None:
            if is_slow(jobs):
                is_free.wait(PATIENCE_SECONDS)

        def send_in(jobs: list[TakenJob], tx: Connection) -> None:
            send(jobs)

        mp.worker("emails", **options)(send_in if has_tx else send)

    ids = put(mp, conn, 3)
    with working(mp.workers["emails"]):
        wait_until(lambda: [status(conn, id_) for id_ in ids] == ["dead"] * 3)
        first_done(mp, conn, "emails")
        is_free.set()
    errors = conn.execute("select id, last_error from milepost.jobs where status = 'dead'")
    assert all(f"handler of job {id_} ran for more than" in error for id_, error in errors)


@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_happens_to_locks_each_effect_is_there_once(
    mp: Milepost, conn: Connection, url: str, is_async: bool
) -> None:
    """Two workers, whose locks are taken away again and again in the middle of their lists. None is
    done before the first time."""
    has_begun, has_lost = threading.Event(), threading.Event()
    conn.execute("create table effects (number integer not null)")
    statement = "insert into effects values (%s)"
    options: Any = {"handle": "batch", "batch": 20, "concurrency": 3, "retry": SOON}
    other = Milepost(url)
    for application in (mp, other):
        if is_async:

            @application.worker("emails", **options)
            async def send_async(jobs: list[TakenJob], tx: AsyncConnection) -> None:
                for job in jobs:
                    await tx.execute(statement, [job.content])
                    await asyncio.sleep(0)
                has_begun.set()
                assert await asyncio.to_thread(has_lost.wait, PATIENCE_SECONDS)

        else:

            @application.worker("emails", **options)
            def send(jobs: list[TakenJob], tx: Connection) -> None:
                for job in jobs:
                    tx.execute(statement, [job.content])
                has_begun.set()
                assert has_lost.wait(PATIENCE_SECONDS)

    losses = 1
    put(mp, conn, 300, max_attempts=1000)
    with working(mp.workers["emails"], other.workers["emails"]):
        assert has_begun.wait(PATIENCE_SECONDS)
        expire_locks(conn)
        has_lost.set()
        while not is_empty(conn):
            if losses < 20:  # at last it is let be, else the last lists would never end
                losses += bool(running(conn, "emails"))
                expire_locks(conn)
    found = conn.execute("select number from effects order by number").fetchall()
    assert [number for (number,) in found] == list(range(300))


@pytest.mark.parametrize("is_async", [False, True])
def test_while_all_handlers_have_lists_no_other_last_attempt_counts_as_begun(
    mp: Milepost, conn: Connection, is_async: bool
) -> None:
    """Though the lists are short. If the process died, those jobs would be dead."""
    is_free, has_begun = threading.Event(), threading.Event()
    options: Any = {"handle": "batch", "batch": 10, "concurrency": 1, "poll_seconds": 0.05}
    if is_async:

        @mp.worker("emails", **options)
        async def send_async(jobs: list[TakenJob]) -> None:
            has_begun.set()
            assert await asyncio.to_thread(is_free.wait, PATIENCE_SECONDS)

    else:

        @mp.worker("emails", **options)
        def send(jobs: list[TakenJob]) -> None:
            has_begun.set()
            assert is_free.wait(PATIENCE_SECONDS)

    (first,) = put(mp, conn, 1, max_attempts=1)
    with working(mp.workers["emails"]):
        assert has_begun.wait(PATIENCE_SECONDS)
        put(mp, conn, 5, max_attempts=1)
        time.sleep(0.5)  # the worker looks for jobs again and again
        begun = conn.execute(
            "select id from milepost.jobs where status = 'running' and is_begun"
        ).fetchall()
        is_free.set()
        assert begun == [(first,)]
        wait_until(lambda: is_empty(conn))
