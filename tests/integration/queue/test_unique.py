"""A unique key stands for one unfinished job of its channel."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event

import pytest

from milepost.db import Connection
from milepost.queue import put
from milepost.queue.verbs import take
from milepost.records import Job, Verdict
from tests.integration.queue.conftest import OpenSession
from tests.integration.queue.jobs import column, status, statuses
from tests.integration.queue.verbs import cancel, complete, defer, fail, retry
from tests.waiting import wait_until

KEYED = Job("c", unique_key="k")


def test_a_second_put_answers_with_the_first_ones_id(conn: Connection) -> None:
    (first,) = put(conn, KEYED)
    assert put(conn, KEYED) == [first]
    assert put(conn, KEYED, Job("c"), KEYED)[::2] == [first, first]
    (job,) = [job for job in take(conn, 5) if job.id == first]
    assert put(conn, KEYED) == [first]
    defer(conn, [job], [timedelta(hours=1)])
    assert put(conn, KEYED) == [first]


def test_the_key_is_the_channels_own(conn: Connection) -> None:
    (first,) = put(conn, KEYED)
    assert put(conn, Job("other", unique_key="k")) != [first]


@pytest.mark.parametrize("keep_for", [None, timedelta(hours=1)])
def test_a_finished_job_gives_its_key_away(conn: Connection, keep_for: timedelta | None) -> None:
    (first,) = put(conn, Job("c", unique_key="k", keep_for=keep_for))
    complete(conn, take(conn, 1))
    (second,) = put(conn, KEYED)
    assert second != first
    cancel(conn, [second])
    assert put(conn, KEYED) != [second]


def test_many_with_keys_among_them_are_put_in_order(conn: Connection) -> None:
    jobs = [Job("c", n, unique_key=str(n % 150) if n % 2 else None) for n in range(300)]
    ids = put(conn, *jobs)
    assert ids[151] == ids[1]
    assert len(set(ids)) == 300 - 75
    assert [job.content for job in take(conn, 300)] == [
        n for n in range(300) if not (n % 2 and n >= 150)
    ]


def test_a_dead_job_whose_key_is_taken_cannot_be_retried(conn: Connection) -> None:
    dead = []
    for key in ("free", "taken"):
        dead += put(conn, Job("c", unique_key=key))
        fail(conn, take(conn, 1), finals=[True])
    (heir,) = put(conn, Job("c", unique_key="taken"))
    assert retry(conn, [dead[1], 12345, dead[0], heir]) == [
        Verdict.STALE,
        Verdict.GONE,
        Verdict.DONE,
        Verdict.STALE,
    ]
    assert [status(conn, id_) for id_ in (*dead, heir)] == ["ready", "dead", "ready"]
    assert column(conn, dead[0], "failures") == 0


def test_puts_of_one_key_at_once_make_one_job(conn: Connection, session: OpenSession) -> None:
    sessions = [session() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for number in range(30):
            job = Job("c", unique_key=f"k{number}")
            answers = pool.map(lambda s, job=job: put(s, job), sessions)
            assert len({tuple(answer) for answer in answers}) == 1
    assert statuses(conn) == {"ready": 30}


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_put_learns_whether_the_first_ones_transaction_commits(
    conn: Connection, session: OpenSession, is_committed: bool
) -> None:
    first_session, second_session = session(), session()
    with ThreadPoolExecutor(1) as pool:
        with first_session.transaction(force_rollback=not is_committed):
            first = put(first_session, KEYED)
            second = pool.submit(put, second_session, KEYED)
            blocked = "select cardinality(pg_blocking_pids(%s)) > 0"
            pid = second_session.info.backend_pid
            wait_until(lambda: (conn.execute(blocked, [pid]).fetchone() or [False])[0])
        assert (second.result(30) == first) is is_committed
    assert statuses(conn) == {"ready": 1}


def test_a_job_that_finishes_while_its_key_is_put_again_is_followed_by_another(
    session: OpenSession, conn: Connection
) -> None:
    """Puts race with completions: every put is answered with a job that was unfinished then, and
    none fails."""
    producer, worker = session(), session()
    is_enough = Event()
    done = 0

    def put_until_enough() -> set[int]:
        ids: set[int] = set()
        while not is_enough.is_set():
            ids.update(put(producer, KEYED))
        return ids

    def complete_next() -> int:
        jobs = take(worker, 10)
        assert len(jobs) <= 1
        return complete(worker, jobs).count(Verdict.DONE)

    with ThreadPoolExecutor(1) as pool:
        puts = pool.submit(put_until_enough)
        try:
            while done < 100:
                done += complete_next()
        finally:
            is_enough.set()
        while not puts.done() or statuses(conn):
            done += complete_next()
    assert done == len(puts.result())
