"""A failed or dead job is a line of the log, at the default level, without its content."""

from __future__ import annotations

import logging

import pytest

from milepost import Job, Milepost, Retry, TakenJob
from milepost.db import Connection
from milepost.queue import Taker
from milepost.runtime.status import FIRST_REPEATS
from tests.integration.queue.worker.working import is_empty, statuses, working
from tests.waiting import wait_until

SOON = Retry(first_seconds=0.01, longest_seconds=0.02)
pytestmark = pytest.mark.parametrize("order", ["append"])


def succeed(job: TakenJob) -> None:
    pass


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    found = [record for record in caplog.records if record.name == "milepost.queue"]
    return [(record.levelno, record.getMessage()) for record in found]


@pytest.mark.parametrize("is_transactional", [False, True])
def test_each_failure_is_a_warning_and_the_last_one_an_error(
    mp: Milepost, conn: Connection, caplog: pytest.LogCaptureFixture, is_transactional: bool
) -> None:
    def fail(job: TakenJob) -> None:
        raise ValueError("no such address\nsecond line")

    def fail_in_transaction(job: TakenJob, tx: Connection) -> None:
        fail(job)

    worker = mp.worker("emails", retry=SOON)(fail_in_transaction if is_transactional else fail)
    (id_,) = mp.put(conn, Job("emails", {"to": "s3cr3t"}, max_attempts=3))
    with working(worker):
        wait_until(lambda: statuses(conn) == [("dead", 3, 3)])
    (first, one), (second, two), (third, three) = told(caplog)
    assert [first, second, third] == [logging.WARNING, logging.WARNING, logging.ERROR]
    assert one.startswith(f"job={id_} channel=emails attempt=1 failures=1 retry_seconds=0.0")
    assert one.endswith(" failed: ValueError: no such address")
    assert f"job={id_} channel=emails attempt=2 failures=2" in two
    assert three == (
        f"job={id_} channel=emails attempt=3 failures=3 dead: ValueError: no such address"
    )
    assert "s3cr3t" not in caplog.text


def test_many_that_fail_alike_are_a_few_lines(
    mp: Milepost, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    def insert(job: TakenJob, tx: Connection) -> None:
        tx.execute("insert into nowhere values (1)")

    worker = mp.worker("emails", retry=SOON)(insert)
    mp.put(conn, *(Job("emails", n, max_attempts=3) for n in range(60)))
    with working(worker):
        wait_until(lambda: {status for status, *_ in statuses(conn)} == {"dead"})
    levels = [level for level, text in told(caplog) if 'relation "nowhere" does not exist' in text]
    # A few in each ten seconds, which a busy machine may need several of: there are 180 failures.
    assert 0 < levels.count(logging.WARNING) <= 3 * FIRST_REPEATS
    assert 0 < levels.count(logging.ERROR) <= 3 * FIRST_REPEATS


def test_what_ends_well_or_is_deferred_says_nothing(
    mp: Milepost, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    mp.worker("emails")(succeed)
    mp.put(conn, Job("emails"))
    mp.run(until="drained")
    assert told(caplog) == []


@pytest.mark.parametrize(("max_attempts", "level"), [(1, logging.ERROR), (2, logging.WARNING)])
def test_a_job_whose_worker_died_is_told_by_who_takes_it_back(
    mp: Milepost,
    conn: Connection,
    caplog: pytest.LogCaptureFixture,
    max_attempts: int,
    level: int,
) -> None:
    (id_,) = mp.put(conn, Job("emails", max_attempts=max_attempts))
    Taker("emails").take(conn, 1)
    conn.execute("update milepost.jobs set locked_until = clock_timestamp()")
    with working(mp.worker("emails")(succeed)):
        wait_until(lambda: told(caplog))
        wait_until(lambda: max_attempts == 1 or is_empty(conn))
    ((found, text),) = told(caplog)
    assert found == level
    assert text.startswith(f"job={id_} channel=emails attempt=1 failures=1 ")
    assert text.endswith("the lock expired: the worker was gone or too slow")
