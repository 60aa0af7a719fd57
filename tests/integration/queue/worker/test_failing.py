"""Handlers that fail in ways that must not end their worker, nor fill the database."""

from __future__ import annotations

from datetime import timedelta

import pytest

from milepost import Defer, Job, Message, Milepost, RecordedMessage, Retry, TakenJob
from milepost.db import Connection, one
from milepost.errors import HandlerFailed
from milepost.queue.verbs import take
from tests.integration.queue.worker.working import statuses, working
from tests.waiting import wait_until

HOUR = timedelta(hours=1)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def last_error(conn: Connection) -> str:
    return str(one(conn.execute("select last_error from milepost.jobs").fetchone())[0])


def test_an_exception_whose_str_raises_fails_its_job_and_nothing_else(
    mp: Milepost, conn: Connection
) -> None:
    @mp.worker("emails", retry={Mute: None})
    def send(job: TakenJob) -> None:
        raise Mute

    mp.put(conn, Job("emails"))
    with working(send):
        wait_until(lambda: statuses(conn) == [("dead", 1, 1)])
    assert last_error(conn) == "Mute: (its __str__ raised RuntimeError)"


def test_an_exception_whose_str_raises_fails_a_processor_with_its_name(
    mp: Milepost, conn: Connection
) -> None:
    @mp.processor("orders", retry=Retry(limit=0))
    def order(messages: list[RecordedMessage], tx: Connection) -> None:
        raise Mute

    mp.append(conn, Message("Placed", 1))
    with pytest.raises(HandlerFailed, match="Mute"):
        mp.run(["orders"], until="caught_up")


@pytest.mark.parametrize("is_transactional", [False, True])
@pytest.mark.parametrize("end", ["result", "returned state", "raised state"])
def test_what_cannot_be_stored_fails_its_job_once(
    mp: Milepost, conn: Connection, is_transactional: bool, end: str
) -> None:
    calls: list[int] = []

    def work(job: TakenJob) -> object:
        calls.append(job.attempt)
        if end == "result":
            return object()
        if end == "raised state":
            raise Defer(state=object())
        return Defer(state=object())

    def work_in_transaction(job: TakenJob, tx: Connection) -> object:
        return work(job)

    worker = mp.worker("sums", retry=Retry(first_seconds=0))(
        work_in_transaction if is_transactional else work
    )
    mp.put(conn, Job("sums", keep_for=HOUR))
    with working(worker):
        wait_until(lambda: statuses(conn) == [("dead", 1, 1)])
    assert calls == [1]
    assert "InvalidResult: Job 1 ran" in last_error(conn)


def test_the_last_error_is_bounded_whoever_reports_it(mp: Milepost, conn: Connection) -> None:
    mp.put(conn, Job("emails", max_attempts=1))
    (job,) = take(conn, 1)
    conn.execute(
        "select milepost.fail(array[%s::bigint], array[%s], errors => array[repeat('x', 1000000)])",
        [job.id, job.attempt],
    )
    assert len(last_error(conn)) <= 11_000
