"""A job that may have killed its worker runs alone in its process, and others wait meanwhile."""

from __future__ import annotations

import threading
import time
from collections import defaultdict

import pytest

from milepost import Job, Milepost, TakenJob
from milepost.db import Connection
from milepost.queue import put
from milepost.queue.verbs import mark_begun, take
from milepost.queue.worker.begins import Alone
from milepost.records import SUSPECT, Verdict
from tests.connections import Gate
from tests.integration.queue.conftest import LONG_LOCK
from tests.integration.queue.jobs import column, expire, status
from tests.integration.queue.verbs import fail
from tests.integration.queue.worker.working import PATIENCE_SECONDS, is_empty, working
from tests.waiting import wait_until


def suspect(conn: Connection, *ids: int) -> None:
    conn.execute("update milepost.jobs set crashes = 2 where id = any(%s)", [list(ids)])


@pytest.mark.parametrize("is_guarded", [True, False])
def test_no_other_job_of_the_process_runs_beside_a_suspect(
    mp: Milepost, conn: Connection, monkeypatch: pytest.MonkeyPatch, is_guarded: bool
) -> None:
    """Two workers of one process, whose handlers overlap otherwise: the first ones begin together,
    and what is not guarded waits until a suspect does not run alone."""
    if not is_guarded:
        monkeypatch.setattr(Alone, "may_take", lambda *_, **_quiet: True)
        monkeypatch.setattr(Alone, "is_granted", lambda *_: True)
    lock = threading.Lock()
    running: set[int] = set()
    beside: dict[int, int] = defaultdict(int)  # the most jobs that ran beside it
    gate = Gate(3)

    def work(job: TakenJob) -> None:
        with lock:
            running.add(job.id)
            for id_ in running:
                beside[id_] = max(beside[id_], len(running) - 1)
        if job.id not in suspects:
            gate.enter()
        elif not is_guarded:
            wait_until(lambda: any(beside[id_] for id_ in suspects))
        time.sleep(0.02)
        with lock:
            running.discard(job.id)

    first = mp.worker("a", concurrency=4, poll_seconds=0.05)(work)
    second = mp.worker("b", concurrency=4, poll_seconds=0.05)(work)
    ids = mp.put(conn, *(Job("ab"[n % 2], n) for n in range(60)))
    suspects = [ids[10], ids[11], ids[30]]
    suspect(conn, *suspects)
    with working(first, second):
        wait_until(lambda: is_empty(conn))
    assert max(beside.values()) > 1
    is_alone = [beside[id_] for id_ in suspects] == [0, 0, 0]
    assert is_alone is is_guarded


def test_a_suspect_that_cannot_be_alone_is_postponed(mp: Milepost, conn: Connection) -> None:
    """Another worker of the process has a handler that runs for long. The others go on. A suspect
    is postponed after the time of its lock, which is short here: on a busy machine the other job
    may lose it, and run again."""
    begun, is_free = threading.Event(), threading.Event()
    handled: list[int] = []

    @mp.worker("long", lock=LONG_LOCK)
    def long(job: TakenJob) -> None:
        begun.set()
        assert is_free.wait(PATIENCE_SECONDS)

    @mp.worker("short", lock=1.0, poll_seconds=0.05)
    def short(job: TakenJob) -> None:
        handled.append(job.id)

    mp.put(conn, Job("long"))
    with working(long, short):
        assert begun.wait(PATIENCE_SECONDS)
        with conn.transaction():
            first, second = mp.put(conn, Job("short"), Job("short"))
            suspect(conn, first)
        wait_until(lambda: status(conn, first) == "scheduled")
        wait_until(lambda: second in handled)
        facts = [column(conn, first, name) for name in ("failures", "crashes")]
        assert facts == [0, 2]
        assert set(handled) == {second}
        is_free.set()
        conn.execute("update milepost.jobs set run_at = clock_timestamp()")
        wait_until(lambda: set(handled) == {second, first})


def test_a_take_gives_a_suspect_alone_when_it_is_its_turn(conn: Connection) -> None:
    ids = put(conn, *(Job("c") for _ in range(4)))
    suspect(conn, ids[1])
    assert [job.id for job in take(conn, 9)] == [ids[0], ids[2], ids[3]]
    (job,) = take(conn, 9, is_ahead=True)
    assert (job.id, job.begin_rules & SUSPECT) == (ids[1], SUSPECT)


def test_an_expired_lock_makes_a_suspect_the_second_time(conn: Connection) -> None:
    (id_,) = put(conn, Job("c", max_attempts=9))
    for crashes in (1, 2, 2):
        take(conn, 1, is_ahead=True)
        expire(conn, [id_])
        conn.execute("select milepost.recover_expired()")
        assert column(conn, id_, "crashes") == crashes
    assert column(conn, id_, "failures") == 0
    fail(conn, take(conn, 1))
    assert column(conn, id_, "crashes") == 0


def test_a_begun_job_fails_and_runs_alone_before_its_last_attempt(conn: Connection) -> None:
    (id_,) = put(conn, Job("c", max_attempts=2))
    (job,) = take(conn, 1, is_ahead=True)
    assert mark_begun(conn, [job]) == [Verdict.DONE]
    expire(conn, [id_])
    conn.execute("select milepost.recover_expired()")
    assert (column(conn, id_, "failures"), column(conn, id_, "crashes")) == (1, 2)
    (job,) = take(conn, 1, is_ahead=True)
    mark_begun(conn, [job])
    expire(conn, [id_])
    conn.execute("select milepost.recover_expired()")
    assert status(conn, id_) == "dead"


def test_a_last_attempt_that_was_not_marked_did_not_run(conn: Connection) -> None:
    (id_,) = put(conn, Job("c", max_attempts=1))
    for _ in range(3):
        take(conn, 1, is_ahead=True)
        expire(conn, [id_])
        conn.execute("select milepost.recover_expired()")
    assert (status(conn, id_), column(conn, id_, "crashes")) == ("ready", 0)
