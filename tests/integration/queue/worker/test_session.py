"""Workers whose handlers are given a Session of SQLAlchemy."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session

from milepost import SUPPLIED, Defer, Failure, Job, Milepost, Retry, TakenJob
from milepost.db import Connection
from tests.integration.queue.worker.working import expire_locks, is_empty, statuses, working
from tests.orm import Noted, SessionLocal, make_tables, values
from tests.waiting import wait_until

SOON = Retry(first_seconds=0.01, longest_seconds=0.05)


@pytest.fixture(autouse=True)
def tables(conn: Connection) -> None:
    make_tables(conn)


def put(mp: Milepost, conn: Connection, count: int) -> None:
    mp.put(conn, *(Job("bills", n) for n in range(1, count + 1)))


def test_effects_are_there_exactly_if_the_job_is_completed(mp: Milepost, conn: Connection) -> None:
    """Its first attempt fails after the flush, its second one when the flush finds a conflict."""
    conn.execute("insert into noted (value) values (-1)")

    @mp.worker("bills", session=SessionLocal, retry=SOON, concurrency=3)
    def bill(job: TakenJob, session: Session) -> None:
        session.add(Noted(value=job.content))
        if job.attempt == 1:
            session.flush()
            raise TimeoutError("after the flush")
        if job.attempt == 2:
            session.add(Noted(value=-1))

    put(mp, conn, 8)
    with working(bill):
        wait_until(lambda: is_empty(conn))
    assert sorted(values(conn)) == [-1, *range(1, 9)]


def test_async_handlers_too(mp: Milepost, conn: Connection) -> None:
    conn.execute("insert into noted (value) values (-1)")

    @mp.worker("bills", session=async_sessionmaker(), retry=SOON, concurrency=3)
    async def bill(job: TakenJob, db: AsyncSession) -> None:
        db.add(Noted(value=job.content))
        if job.attempt == 1:
            await db.flush()
            raise TimeoutError("after the flush")
        if job.attempt == 2:
            db.add(Noted(value=-1))

    put(mp, conn, 8)
    with working(bill):
        wait_until(lambda: is_empty(conn))
    assert sorted(values(conn)) == [-1, *range(1, 9)]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_list_of_jobs_shares_a_session(mp: Milepost, conn: Connection, is_async: bool) -> None:
    def note(jobs: list[TakenJob], tx: Session | AsyncSession) -> dict[TakenJob, Any]:
        tx.add_all(Noted(value=job.content) for job in jobs if job.content != 3)
        return {job: Failure("not three") for job in jobs if job.content == 3}

    async def note_async(jobs: list[TakenJob], tx: AsyncSession) -> dict[TakenJob, Any]:
        return note(jobs, tx)

    never = Retry(limit=0)
    worker = mp.worker("bills", session=SessionLocal, handle="batch", batch=4, retry=never)
    put(mp, conn, 8)
    with working(worker(note_async if is_async else note)):
        wait_until(lambda: [row[0] for row in statuses(conn)] == ["dead"])
    assert sorted(values(conn)) == [1, 2, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_commit_is_refused(mp: Milepost, conn: Connection, is_async: bool) -> None:
    def bill(job: TakenJob, session: Session) -> None:
        session.add(Noted(value=job.content))
        session.commit()

    async def bill_async(job: TakenJob, session: AsyncSession) -> None:
        session.add(Noted(value=job.content))
        await session.commit()

    worker = mp.worker("bills", session=SessionLocal, retry=Retry(limit=0))
    put(mp, conn, 1)
    with working(worker(bill_async if is_async else bill)):
        wait_until(lambda: [row[0] for row in statuses(conn)] == ["dead"])
    assert values(conn) == []
    error = conn.execute("select last_error from milepost.jobs").fetchone()
    assert error is not None
    assert "SessionCallRefused: commit() was called" in error[0]


def test_a_stale_attempt_leaves_no_effects(mp: Milepost, conn: Connection) -> None:
    """Its lock is taken away after its flush and before its end."""
    has_flushed, is_free = threading.Event(), threading.Event()

    @mp.worker("bills", session=SessionLocal, retry=SOON)
    def bill(job: TakenJob, session: Session) -> None:
        session.add(Noted(value=job.attempt))
        session.flush()
        has_flushed.set()
        if job.attempt == 1:
            assert is_free.wait(30)

    put(mp, conn, 1)
    with working(bill):
        assert has_flushed.wait(30)
        expire_locks(conn)
        is_free.set()
        wait_until(lambda: is_empty(conn))
    assert values(conn) == [2]


def test_a_job_that_is_deferred_keeps_its_effects(mp: Milepost, conn: Connection) -> None:
    @mp.worker("bills", session=SessionLocal)
    def bill(job: TakenJob, session: Session) -> Defer | None:
        session.add(Noted(value=len(job.state or [])))
        return None if job.state else Defer(timedelta(0), state=[1])

    put(mp, conn, 1)
    with working(bill):
        wait_until(lambda: is_empty(conn))
    assert values(conn) == [0, 1]


def test_the_time_limit_is_also_for_the_flush(mp: Milepost, conn: Connection) -> None:
    """An async handler is interrupted in it. It would wait for the lock of another transaction."""

    @mp.worker("bills", session=SessionLocal, timeout=0.2, retry=Retry(limit=0))
    async def bill(job: TakenJob, session: AsyncSession) -> None:
        session.add(Noted(value=1))

    with conn.transaction():
        conn.execute("insert into noted (value) values (1)")
        with mp.connect() as other:
            put(mp, other, 1)
            with working(bill):
                wait_until(lambda: [row[0] for row in statuses(other)] == ["dead"])
            error = other.execute("select last_error from milepost.jobs").fetchone()
    assert error is not None
    assert "JobTimedOut" in error[0]
    assert values(conn) == [1]


def test_tasks_that_take_a_transaction_are_given_a_session(mp: Milepost, conn: Connection) -> None:
    mp.task_channel("bills", session=SessionLocal)
    seen: list[int] = []

    @mp.task(channel="bills")
    def bill(value: int, session: Session = SUPPLIED) -> None:
        session.add(Noted(value=value))

    @mp.task(channel="bills")
    def tell(value: int) -> None:
        seen.append(value)

    with conn.transaction():
        bill.put(conn, 1)
        tell.put(conn, 2)
    with working(mp.workers["bills"]):
        wait_until(lambda: is_empty(conn))
    assert (values(conn), seen) == ([1], [2])
