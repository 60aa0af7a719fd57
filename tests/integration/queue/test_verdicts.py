"""Whoever changes a running job names its attempt, and is told what became of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from milepost.db import Connection
from milepost.queue import put
from milepost.queue.verbs import take
from milepost.records import Job, TakenJob, Verdict
from tests.integration.queue.jobs import column, duties_due, expire, status, statuses
from tests.integration.queue.verbs import (
    cancel,
    cancel_running,
    complete,
    defer,
    fail,
    give_back,
    heartbeat,
    retry,
)

DONE, STALE, GONE, CANCELLED = Verdict.DONE, Verdict.STALE, Verdict.GONE, Verdict.CANCELLED
HOUR = timedelta(hours=1)
KEPT = pytest.mark.parametrize("keep_for", [None, HOUR])
Verb = Callable[[Connection, list[TakenJob]], list[Verdict]]
VERBS: dict[str, Verb] = {
    "complete": complete,
    "complete with results": lambda conn, jobs: complete(conn, jobs, [b"1"] * len(jobs)),
    "defer": defer,
    "fail": fail,
    "give back": give_back,
    "heartbeat": heartbeat,
    "cancel running": cancel_running,
}


def taken(conn: Connection, count: int = 1, keep_for: timedelta | None = None) -> list[TakenJob]:
    put(conn, *(Job("c", n, keep_for=keep_for) for n in range(count)))
    return take(conn, count)


@KEPT
@pytest.mark.parametrize("verb", VERBS)
def test_a_verdict_for_each_in_the_order_asked(
    conn: Connection, verb: str, keep_for: timedelta | None
) -> None:
    mine, theirs, waiting, finished, cancelled = jobs = taken(conn, 5, keep_for)
    give_back(conn, [theirs, waiting])
    take(conn, 1)  # theirs, at its second attempt
    complete(conn, [finished])
    cancel_running(conn, [cancelled])
    before = column(conn, theirs.id, "locked_until"), column(conn, waiting.id, "status")
    jobs = [cancelled, waiting, mine, finished, theirs]
    assert VERBS[verb](conn, jobs) == [GONE, STALE, DONE, GONE, STALE]
    assert (column(conn, theirs.id, "locked_until"), status(conn, waiting.id)) == before
    assert status(conn, theirs.id) == "running"


@pytest.mark.parametrize("verb", VERBS)
def test_no_jobs_no_verdicts(conn: Connection, verb: str) -> None:
    assert VERBS[verb](conn, []) == []


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "heartbeat"])
def test_a_job_that_is_named_twice_is_changed_once(conn: Connection, verb: str) -> None:
    (job,) = taken(conn)
    assert VERBS[verb](conn, [job, job]) == [DONE, DONE]


@KEPT
@pytest.mark.parametrize("verb", VERBS)
def test_a_job_that_is_named_by_two_attempts_is_the_latters(
    conn: Connection, verb: str, keep_for: timedelta | None
) -> None:
    (lost,) = taken(conn, keep_for=keep_for)
    expire(conn, [lost.id])
    (held,) = take(conn, 1)
    lost.progress("lost")
    verdicts = VERBS[verb](conn, [lost, held, lost])
    assert verdicts[1] is DONE
    assert verdicts[0] is verdicts[2]
    assert verdicts[0] in (STALE, GONE)
    if verb == "heartbeat":
        assert column(conn, held.id, "progress") is None


@pytest.mark.parametrize("verb", VERBS)
def test_a_worker_whose_lock_expired_may_go_on_until_the_job_is_taken_back(
    conn: Connection, verb: str
) -> None:
    (job,) = taken(conn)
    expire(conn, [job.id])
    assert VERBS[verb](conn, [job]) == [DONE]


def test_a_mixed_batch_completes_and_only_kept_jobs_stay(conn: Connection) -> None:
    put(conn, *(Job("c", n, keep_for=HOUR if n % 2 else None) for n in range(6)))
    jobs = take(conn, 6)
    results = [str(job.content).encode() for job in jobs]
    assert complete(conn, jobs, results) == [DONE] * 6
    assert statuses(conn) == {"done": 3}
    assert [column(conn, job.id, "result") for job in jobs[1::2]] == ["\\x31", "\\x33", "\\x35"]


def test_plain_sql_that_passes_no_results_keeps_jobs_too(conn: Connection) -> None:
    put(conn, Job("c", keep_for=HOUR), Job("c"))
    ids = [job.id for job in take(conn, 2)]
    found = conn.execute("select milepost.complete(%s, array[1, 1])::text", [ids]).fetchall()
    assert found == [("done",), ("done",)]
    assert statuses(conn) == {"done": 1}


def test_a_kept_job_goes_when_its_time_is_over(conn: Connection) -> None:
    jobs = taken(conn, 2, timedelta(hours=1))
    complete(conn, jobs)
    duties_due(conn)
    take(conn, 1)
    assert statuses(conn) == {"done": 2}
    conn.execute(
        "update milepost.jobs set kept_until = clock_timestamp() where id = %s", [jobs[0].id]
    )
    duties_due(conn)
    take(conn, 1)
    assert [status(conn, job.id) for job in jobs] == [None, "done"]


def test_defer_without_a_state_keeps_the_state(conn: Connection) -> None:
    put(conn, Job("c", state={"page": 1}))
    defer(conn, take(conn, 1))
    (job,) = take(conn, 1)
    assert (job.state, job.attempt, job.failures) == ({"page": 1}, 2, 0)
    defer(conn, [job], states=[b'{"page":2}'])
    assert [job.state for job in take(conn, 1)] == [{"page": 2}]


def test_defer_waits_by_the_servers_clock_until_a_time_or_not_at_all(conn: Connection) -> None:
    jobs = taken(conn, 4)
    past, future = datetime(2020, 1, 1, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC)
    assert defer(conn, jobs, [HOUR, None, past, future]) == [DONE] * 4
    assert [status(conn, job.id) for job in jobs] == ["scheduled", "ready", "ready", "scheduled"]
    row = conn.execute(
        "select run_at - clock_timestamp() from milepost.jobs where id = %s", [jobs[0].id]
    ).fetchone()
    assert row is not None
    assert timedelta(minutes=59) < row[0] <= HOUR


def test_a_job_yields_to_the_others_of_its_channel(conn: Connection) -> None:
    put(conn, *(Job("c", n) for n in range(3)))
    defer(conn, take(conn, 1))
    assert [job.content for job in take(conn, 3)] == [1, 2, 0]


def test_a_job_that_is_given_back_keeps_its_place(conn: Connection) -> None:
    put(conn, *(Job("c", n) for n in range(3)))
    give_back(conn, take(conn, 1))
    assert [job.content for job in take(conn, 3)] == [0, 1, 2]


def test_a_job_that_fails_too_often_is_dead(conn: Connection) -> None:
    (id_,) = put(conn, Job("c", max_attempts=3))
    for failures in range(3):
        (job,) = take(conn, 1)
        assert job.failures == failures
        fail(conn, [job], errors=[f"error {failures}"])
    assert (status(conn, id_), column(conn, id_, "last_error")) == ("dead", "error 2")
    assert retry(conn, [id_]) == [DONE]
    assert [(job.failures, job.attempt) for job in take(conn, 1)] == [(0, 4)]


def test_a_failed_job_waits_for_its_delay(conn: Connection) -> None:
    jobs = taken(conn, 3)
    fail(conn, jobs, [HOUR, None, timedelta(0)], finals=[False, True, False])
    assert [status(conn, job.id) for job in jobs] == ["scheduled", "dead", "ready"]


def test_deferring_is_no_failure(conn: Connection) -> None:
    (id_,) = put(conn, Job("c", max_attempts=1))
    for _ in range(5):
        defer(conn, take(conn, 1))
    assert status(conn, id_) == "ready"


def test_a_job_that_kills_its_workers_is_dead_in_the_end(conn: Connection) -> None:
    (id_,) = put(conn, Job("c", max_attempts=2))
    for _ in range(2):
        assert len(take(conn, 1)) == 1
        expire(conn, [id_])
    assert not take(conn, 1)
    assert status(conn, id_) == "dead"
    assert "the lock expired" in column(conn, id_, "last_error")


@KEPT
def test_a_waiting_job_that_is_cancelled_is_finished(
    conn: Connection, keep_for: timedelta | None
) -> None:
    ready, scheduled, dead = put(
        conn,
        Job("c", priority=1, keep_for=keep_for),
        Job("c", run_at=HOUR, keep_for=keep_for),
        Job("c", keep_for=keep_for),
    )
    fail(conn, take(conn, 1), finals=[True])
    assert cancel(conn, [dead, 12345, ready, scheduled]) == [DONE, GONE, DONE, DONE]
    assert cancel(conn, [dead, ready]) == [GONE, GONE]
    assert statuses(conn) == ({} if keep_for is None else {"cancelled": 3})
    assert not take(conn, 9)


def test_a_heartbeat_tells_that_a_running_job_is_cancelled_and_it_ends_as_its_worker_says(
    conn: Connection,
) -> None:
    job, other = taken(conn, 2)
    assert heartbeat(conn, [job, other]) == [DONE, DONE]
    assert cancel(conn, [job.id]) == [CANCELLED]
    assert heartbeat(conn, [job, other]) == [CANCELLED, DONE]
    assert complete(conn, [job]) == [DONE]


@KEPT
@pytest.mark.parametrize("verb", ["defer", "fail", "give back", "expire", "cancel running"])
def test_a_cancelled_job_does_not_wait_again(
    conn: Connection, verb: str, keep_for: timedelta | None
) -> None:
    (job,) = taken(conn, keep_for=keep_for)
    cancel(conn, [job.id])
    if verb == "expire":
        expire(conn, [job.id])
    else:
        assert VERBS[verb](conn, [job]) == [DONE]
    for _ in range(2):
        duties_due(conn)
        assert not take(conn, 1)
    assert status(conn, job.id) == (None if keep_for is None else "cancelled")


def test_a_heartbeat_extends_the_lock_and_takes_progress_along(conn: Connection) -> None:
    job, silent = jobs = taken(conn, 2)
    before = column(conn, job.id, "locked_until")
    job.progress({"percent": 50})
    heartbeat(conn, jobs, lock_seconds=3600)
    assert column(conn, job.id, "locked_until") > before
    assert column(conn, job.id, "progress") == "\\x" + b'{"percent":50}'.hex()
    assert column(conn, silent.id, "progress") is None
    heartbeat(conn, [silent])
    heartbeat(conn, [job])
    assert column(conn, job.id, "progress") == "\\x" + b'{"percent":50}'.hex()


def test_a_heartbeat_tells_that_a_lock_is_lost(conn: Connection) -> None:
    retaken, finished = taken(conn, 2)
    expire(conn, [retaken.id])
    take(conn, 1)
    complete(conn, [finished])
    assert heartbeat(conn, [finished, retaken]) == [GONE, STALE]
