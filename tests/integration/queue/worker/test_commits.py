"""A handler that ends the transaction of its job by itself is found out, and not tried again."""

from __future__ import annotations

import pytest

from milepost import Job, Message, Milepost, Retry, TakenJob
from milepost.db import AsyncConnection, Connection
from tests.integration.queue.worker.working import statuses, working
from tests.waiting import wait_until

SOON = Retry(first_seconds=0.01, longest_seconds=0.05)


def error_of(conn: Connection) -> str:
    row = conn.execute("select last_error from milepost.jobs").fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("is_async", [True, False])
def test_what_it_committed_stays_and_the_job_is_dead_with_the_reason(
    mp: Milepost, conn: Connection, fails: bool, is_async: bool
) -> None:
    def send(job: TakenJob, tx: Connection) -> None:
        mp.append(tx, Message(f"Sent by attempt {job.attempt}", None))
        tx.execute("commit")
        if fails:
            raise TimeoutError("too late")

    async def send_async(job: TakenJob, tx: AsyncConnection) -> None:
        await mp.append(tx, Message(f"Sent by attempt {job.attempt}", None))
        await tx.execute("commit")
        if fails:
            raise TimeoutError("too late")

    worker = mp.worker("emails", retry=SOON)(send_async if is_async else send)
    (id_,) = mp.put(conn, Job("emails"))
    with working(worker):
        wait_until(lambda: statuses(conn) == [("dead", 1, 1)])
    assert [message.type for message in mp.read()] == ["Sent by attempt 1"]
    error = error_of(conn)
    assert error.startswith("JobTransactionEnded: ")
    assert f"milepost queue retry {id_}" in error
    if fails:
        assert "TimeoutError: too late" in error


def test_one_that_only_fails_is_tried_again(mp: Milepost, conn: Connection) -> None:
    @mp.worker("emails", retry=SOON)
    def send(job: TakenJob, tx: Connection) -> None:
        mp.append(tx, Message(f"Sent by attempt {job.attempt}", None))
        if job.attempt == 1:
            raise TimeoutError("not yet")

    mp.put(conn, Job("emails"))
    with working(send):
        wait_until(lambda: statuses(conn) == [])
    assert [message.type for message in mp.read()] == ["Sent by attempt 2"]
