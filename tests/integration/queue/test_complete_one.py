"""Completing one job by itself: the verdicts of complete(), at the cost of its DELETE."""

from __future__ import annotations

from datetime import timedelta

import psycopg

from milepost import Job, db
from milepost.db import Connection
from milepost.queue import put, verbs
from milepost.queue.outcome import Ending, Kind
from milepost.records import TakenJob, Verdict
from tests.integration.queue.jobs import column, expire, status
from tests.integration.queue.worker.working import is_empty

SCHEMA = "milepost"


def taken(conn: Connection, *jobs: Job, is_durable: bool = True) -> list[TakenJob]:
    put(conn, *jobs)
    return verbs.take(conn, len(jobs), 30, "a", is_durable=is_durable)


def completed(conn: Connection, job: TakenJob, result: bytes | None = None) -> Verdict:
    ((_, verdict),) = verbs.settle(conn, [Ending(job, Kind.COMPLETE, result=result)], SCHEMA)
    return verdict


def test_a_job_is_done_once_and_then_gone(conn: Connection) -> None:
    (job,) = taken(conn, Job("a"), is_durable=False)
    assert completed(conn, job) is Verdict.DONE
    assert is_empty(conn)
    assert completed(conn, job) is Verdict.GONE


def test_a_kept_job_stays_with_its_result(conn: Connection) -> None:
    (job,) = taken(conn, Job("a", keep_for=timedelta(hours=1)))
    assert completed(conn, job, b"1") is Verdict.DONE
    assert status(conn, job.id) == "done"
    assert column(conn, job.id, "result") == "\\x31"
    assert completed(conn, job, b"2") is Verdict.GONE


def test_an_attempt_that_is_over_changes_nothing(conn: Connection) -> None:
    (job,) = taken(conn, Job("a"))
    expire(conn, [job.id])
    conn.execute("select milepost.recover_expired()")
    assert completed(conn, job) is Verdict.STALE
    (again,) = verbs.take(conn, 1, 30, "a")
    assert completed(conn, job) is Verdict.STALE
    assert completed(conn, again) is Verdict.DONE


def test_another_token_changes_nothing(conn: Connection) -> None:
    (job,) = taken(conn, Job("a"), is_durable=False)
    assert job.token is not None
    token, job.token = job.token, job.token + 1
    assert completed(conn, job) is Verdict.STALE
    job.token = None
    assert completed(conn, job) is Verdict.STALE
    job.token = token
    assert completed(conn, job) is Verdict.DONE


def test_it_never_reads_the_whole_table(conn: Connection, url: str) -> None:
    """Also where its plan was made while the table was small."""
    conn.execute("vacuum analyze milepost.jobs")
    jobs = taken(conn, *(Job("a", n) for n in range(10)))
    with db.connect(url) as other:
        before = scans(other)
        for job in jobs:
            assert completed(other, job) is Verdict.DONE
        assert scans(other) == before


def scans(conn: psycopg.Connection[tuple[int]]) -> int:
    """Sequential scans of the jobs, by this session too."""
    conn.execute("select pg_stat_force_next_flush()")
    rows = conn.execute(
        "select seq_scan from pg_stat_user_tables where relid = 'milepost.jobs'::regclass"
    ).fetchall()
    return int(rows[0][0])


def test_those_that_wait_for_it_are_told(conn: Connection) -> None:
    (job,) = taken(conn, Job("a"))
    (follower,) = put(conn, Job("b", after=[job.id]))
    conn.execute("select milepost.tend_followers()")
    assert column(conn, job.id, "has_followers") is True
    assert completed(conn, job) is Verdict.DONE
    conn.execute("select milepost.tend_followers()")
    assert status(conn, follower) == "ready"
