"""The doctor's checks of the queue find what somebody broke, and mend it."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from milepost.db import Connection
from milepost.queue import Policy, put, set_channel
from milepost.queue.health import Fault, check, repair
from milepost.queue.verbs import take
from milepost.records import Job
from tests.integration.queue.jobs import running, statuses

# What somebody did, and the kind of fault it is. In channel `c` a job runs and one waits, at most
# one may run; in `d` one is scheduled.
DAMAGE = {
    "overdue": "update milepost.jobs set run_at = run_at - interval '1 day' where channel = 'd'",
    "expired": "update milepost.jobs set locked_until = locked_until - interval '1 day'",
    "hint": "update milepost.channels set oldest_running = 1000",
    "ids": "select setval('milepost.jobs_id_seq', 1)",
    "taken": "select setval('milepost.jobs_taken_seq', 1)",
}


@pytest.fixture
def queue(conn: Connection) -> Connection:
    set_channel(conn, "c", Policy(max_concurrency=1))
    put(conn, Job("c"), Job("c"), Job("d", run_at=timedelta(hours=1)))
    take(conn, 9)
    return conn


def kinds(faults: list[Fault]) -> list[str]:
    return [fault.kind for fault in faults]


def test_a_queue_at_work_has_no_faults(queue: Connection) -> None:
    assert check(queue, late_seconds=0.0) == []


@pytest.mark.parametrize("kind", DAMAGE)
def test_each_fault_is_found_and_mended(queue: Connection, kind: str) -> None:
    queue.execute(DAMAGE[kind].encode())
    (fault,) = check(queue)
    assert fault.kind == kind
    assert str(fault.number) in fault.what
    repair(queue)
    assert check(queue) == []


def test_a_repaired_queue_works(queue: Connection) -> None:
    for damage in DAMAGE.values():
        queue.execute(damage.encode())
    assert set(kinds(check(queue))) == set(DAMAGE)
    repair(queue)
    assert check(queue) == []
    put(queue, Job("c"))
    assert {job.channel for job in take(queue, 9)} == {"c", "d"}
    assert running(queue, "c") == 1


def test_a_running_job_without_a_lock_cannot_be(queue: Connection) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        queue.execute("update milepost.jobs set locked_until = null")
    with pytest.raises(psycopg.errors.CheckViolation):
        queue.execute("update milepost.jobs set locked_until = clock_timestamp()")


def test_repairing_a_queue_at_work_changes_nothing(queue: Connection) -> None:
    before = statuses(queue)
    repair(queue)
    assert statuses(queue) == before
    assert not take(queue, 9)


def test_a_worker_that_is_late_by_less_than_the_limit_is_no_fault(queue: Connection) -> None:
    late = "update milepost.jobs set locked_until = clock_timestamp() - interval '5 s' "
    queue.execute(f"{late} where status = 'running'".encode())
    assert kinds(check(queue)) == []
    assert kinds(check(queue, late_seconds=1.0)) == ["expired"]
