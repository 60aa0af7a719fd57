"""One transaction for log, checkpoint and queue."""

from __future__ import annotations

import threading

import psycopg
import pytest

from milepost import Defer, Job, Message, Milepost, Retry, TakenJob
from milepost.db import AsyncConnection, Connection
from milepost.errors import HandlerFailed
from milepost.records import RecordedMessage
from tests.integration.queue.worker.working import (
    PATIENCE_SECONDS,
    expire_locks,
    is_empty,
    statuses,
    working,
)
from tests.waiting import wait_until

SOON = Retry(first_seconds=0.01, longest_seconds=0.05)


def log_types(mp: Milepost) -> list[str]:
    return [message.type for message in mp.read()]


def test_a_processor_puts_jobs_exactly_if_its_checkpoint_moves(
    mp: Milepost, conn: Connection
) -> None:
    @mp.processor("orders", batch_size=1, retry=Retry(limit=2, first_seconds=0))
    def order(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            mp.put(tx, Job("emails", message.data))
            if message.data == "bad":
                raise ValueError("after its job was put")

    mp.append(conn, Message("Placed", "a"), Message("Placed", "b"), Message("Placed", "bad"))
    with pytest.raises(HandlerFailed):
        mp.run(["orders"], until="caught_up")
    rows = conn.execute("select content from milepost.jobs order by id").fetchall()
    assert rows == [(b'"a"',), (b'"b"',)]


def test_a_worker_appends_to_the_log_in_the_transaction_that_completes_its_job(
    mp: Milepost, conn: Connection
) -> None:
    @mp.worker("emails", retry=SOON)
    def send(job: TakenJob, tx: Connection) -> None:
        mp.append(tx, Message(f"Sent by attempt {job.attempt}", job.content))
        if job.attempt == 1:
            raise TimeoutError("after it was appended")

    mp.put(conn, Job("emails"))
    with working(send):
        wait_until(lambda: is_empty(conn))
    assert log_types(mp) == ["Sent by attempt 2"]


def test_an_async_worker_does_the_same(mp: Milepost, conn: Connection) -> None:
    @mp.worker("emails", retry=SOON, concurrency=5)
    async def send(job: TakenJob, tx: AsyncConnection) -> None:
        await mp.append(tx, Message(f"Sent by attempt {job.attempt}", job.content))
        if job.attempt == 1:
            raise TimeoutError("after it was appended")

    mp.put(conn, *(Job("emails", n) for n in range(20)))
    with working(send):
        wait_until(lambda: is_empty(conn))
    assert log_types(mp) == ["Sent by attempt 2"] * 20


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stale_attempt_leaves_no_effects(mp: Milepost, conn: Connection, is_async: bool) -> None:
    """Its lock is taken away after its effects and before its end."""
    is_free = threading.Event()

    def append(job: TakenJob) -> Message:
        return Message(f"Sent by attempt {job.attempt}", None)

    def send(job: TakenJob, tx: Connection) -> None:
        mp.append(tx, append(job))
        if job.attempt == 1:
            expire_locks(conn)
            assert is_free.wait(PATIENCE_SECONDS)

    async def send_async(job: TakenJob, tx: AsyncConnection) -> None:
        await mp.append(tx, append(job))
        if job.attempt == 1:
            expire_locks(conn)
            wait_until(lambda: statuses_of(mp) == [("running", 2, 1)])

    handler = send_async if is_async else send
    # Two workers: while the loop of one is blocked, the other takes the job.
    mp.put(conn, Job("emails"))
    first = mp.worker("emails", concurrency=1, poll_seconds=0.05)(handler)
    second = mp.worker("email*", concurrency=1, poll_seconds=0.05)(handler)
    with working(first, second):
        if not is_async:
            with mp.connect() as other:
                wait_until(lambda: is_empty(other))
            is_free.set()
        with mp.connect() as other:
            wait_until(lambda: is_empty(other))
    # The second attempt; or the third, if the busy worker had taken the second and gave it back.
    (sent,) = log_types(mp)
    assert sent in ("Sent by attempt 2", "Sent by attempt 3")


def statuses_of(mp: Milepost) -> list[tuple[object, ...]]:
    with mp.connect() as conn:
        found = statuses(conn)
    return found or [("running", 2, 1)]  # the other attempt may have ended already


def test_effects_commit_with_a_defer_that_is_returned_and_not_with_one_that_is_raised(
    mp: Milepost, conn: Connection
) -> None:
    @mp.worker("emails")
    def send(job: TakenJob, tx: Connection) -> Defer | None:
        mp.append(tx, Message(f"attempt {job.attempt}", job.state))
        if job.attempt == 1:
            return Defer(state="returned")
        if job.attempt == 2:
            raise Defer(state="raised")
        return None

    mp.put(conn, Job("emails"))
    mp.run(until="drained")
    assert log_types(mp) == ["attempt 1", "attempt 3"]
    assert [message.data for message in mp.read()] == [None, "raised"]


def test_a_handler_that_hides_an_error_of_the_database_fails(
    mp: Milepost, conn: Connection
) -> None:
    @mp.worker("emails", retry={Exception: None})
    def send(job: TakenJob, tx: Connection) -> None:
        mp.append(tx, Message("Sent", None))
        with pytest.raises(psycopg.errors.UndefinedTable):
            tx.execute("select * from nothing")

    mp.put(conn, Job("emails"))
    mp.run(until="drained")
    assert [row[0] for row in statuses(conn)] == ["dead"]
    assert log_types(mp) == []


def test_run_until_drained_also_does_the_jobs_that_processors_put(
    mp: Milepost, conn: Connection
) -> None:
    seen: list[int] = []

    @mp.processor("orders", batch_size=10)
    def order(messages: list[RecordedMessage], tx: Connection) -> None:
        mp.put(tx, *(Job("emails", message.data) for message in messages))

    @mp.worker("emails")
    def send(job: TakenJob) -> None:
        seen.append(job.content)

    mp.append(conn, *(Message("Placed", n) for n in range(200)))
    mp.run(until="drained")
    assert sorted(seen) == list(range(200))
