from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from milepost import Cancel, Job, Milepost, TakenJob
from milepost.db import Connection
from milepost.errors import (
    JobCancelled,
    JobFailed,
    JobUnfinished,
    MilepostError,
    ResultNotKept,
    ResultTimedOut,
)
from milepost.queue.lookups import MOST_CONNECTIONS, Lookups
from tests.integration.queue.worker.working import PATIENCE_SECONDS, working
from tests.waiting import wait_until

KEPT = timedelta(hours=1)


@pytest.mark.parametrize("value", [None, 1, "text", {"a": [1, None]}, b"\xff\x00"])
def test_the_result_is_what_the_handler_returned(
    mp: Milepost, conn: Connection, value: Any
) -> None:
    @mp.worker("a")
    def handle(job: TakenJob) -> Any:
        return value

    (id_,) = mp.put(conn, Job("a", keep_for=KEPT))
    with working(handle):
        assert mp.wait_for_result(id_) == value
    assert mp.result(id_) == value
    assert asyncio.run(mp.result_async(id_)) == value


def test_a_wait_ends_when_the_job_does(mp: Milepost, conn: Connection) -> None:
    is_free = threading.Event()

    @mp.worker("a")
    def handle(job: TakenJob) -> str:
        is_free.wait(PATIENCE_SECONDS)
        return "done"

    (id_,) = mp.put(conn, Job("a", keep_for=KEPT))
    with working(handle):
        with pytest.raises(ResultTimedOut, match=rf"Job {id_} had not finished after 0.05 s"):
            mp.wait_for_result(id_, timeout=0.05)
        with pytest.raises(JobUnfinished, match=r"running|ready"):
            mp.result(id_)

        async def wait() -> Any:
            waiting = asyncio.create_task(mp.wait_for_result_async(id_, timeout=60))
            await asyncio.sleep(0)
            is_free.set()
            return await waiting

        assert asyncio.run(wait()) == "done"


def ends_with(mp: Milepost, conn: Connection, error: Exception, **options: Any) -> int:
    @mp.worker("a")
    def handle(job: TakenJob) -> None:
        raise error

    (id_,) = mp.put(conn, Job("a", keep_for=KEPT, max_attempts=1))
    with working(handle), pytest.raises(MilepostError):
        mp.wait_for_result(id_)
    return id_


def test_a_dead_job_raises_its_last_error(mp: Milepost, conn: Connection) -> None:
    id_ = ends_with(mp, conn, ValueError("no address"))
    with pytest.raises(JobFailed, match="ValueError: no address") as raised:
        mp.result(id_)
    assert (raised.value.id, raised.value.error) == (id_, "ValueError: no address")
    with pytest.raises(JobFailed):
        asyncio.run(mp.wait_for_result_async(id_))


def test_a_cancelled_job_says_so(mp: Milepost, conn: Connection) -> None:
    id_ = ends_with(mp, conn, Cancel("not wanted"))
    with pytest.raises(JobCancelled, match="not wanted"):
        mp.result(id_)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The id of each look at a job."""
    found: list[int] = []
    look = Lookups.look

    def noting(lookups: Lookups, id_: int) -> list[Any]:
        found.append(id_)
        return look(lookups, id_)

    monkeypatch.setattr(Lookups, "look", noting)
    return found


def test_a_job_that_is_not_kept_is_not_waited_for(
    mp: Milepost, conn: Connection, looks: list[int]
) -> None:
    (id_,) = mp.put(conn, Job("a"))
    with pytest.raises(ResultNotKept, match="because it has no keep_for"):
        mp.wait_for_result(id_, timeout=3600)
    with pytest.raises(ResultNotKept, match="no such job"):
        mp.wait_for_result(id_ + 1, timeout=3600)
    with pytest.raises(ResultNotKept, match="no such job"):
        mp.result(id_ + 1)
    assert looks == [id_, id_ + 1, id_ + 1]


def test_all_who_wait_share_a_few_connections_which_are_closed_afterwards(
    mp: Milepost, conn: Connection, looks: list[int]
) -> None:
    is_free = threading.Event()

    @mp.worker("a", concurrency=1)
    def handle(job: TakenJob) -> Any:
        is_free.wait(PATIENCE_SECONDS)
        return job.content

    ids = mp.put(conn, *(Job("a", n, keep_for=KEPT) for n in range(20)))
    most = 0
    with working(handle), ThreadPoolExecutor(len(ids)) as threads:
        waits = [threads.submit(mp.wait_for_result, id_, PATIENCE_SECONDS) for id_ in ids]
        while min(Counter(looks).values(), default=0) < 3 or len(set(looks)) < len(ids):
            most = max(most, sessions(conn) - 1)
        most = max(most, sessions(conn) - 1)  # once at least, while they wait
        is_free.set()
        assert [wait.result(PATIENCE_SECONDS) for wait in waits] == list(range(len(ids)))
    assert 1 <= most <= MOST_CONNECTIONS
    wait_until(lambda: sessions(conn) == 1)


def sessions(conn: Connection) -> int:
    """Named as connections without a name of their own; this one is among them."""
    rows = conn.execute(
        "select count(*) from pg_stat_activity "
        "where datname = current_database() and application_name = 'milepost'"
    ).fetchall()
    return int(rows[0][0])


def test_a_wait_goes_on_after_its_connection_was_lost(mp: Milepost, conn: Connection) -> None:
    is_free, ended = threading.Event(), threading.Event()

    @mp.worker("a")
    def handle(job: TakenJob) -> str:
        is_free.wait(PATIENCE_SECONDS)
        return "done"

    def end_sessions() -> None:
        wait_until(lambda: sessions(conn) == 2)
        rows = conn.execute(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = "
            "current_database() and application_name = 'milepost' and pid <> pg_backend_pid()"
        ).fetchall()
        assert rows[0][0] >= 1
        ended.set()
        is_free.set()

    (id_,) = mp.put(conn, Job("a", keep_for=KEPT))
    with working(handle):
        thread = threading.Thread(target=end_sessions)
        thread.start()
        assert mp.wait_for_result(id_) == "done"
        thread.join()
    assert ended.is_set()
