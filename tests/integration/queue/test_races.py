"""Several sessions at once, one step at a time; each guard is also seen to be needed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from milepost.db import Connection, one
from milepost.queue import Policy, policies, put, set_channel
from milepost.queue.verbs import take, take_from
from milepost.records import Job, Verdict
from tests.integration.queue.conftest import OpenSession
from tests.integration.queue.jobs import duties_due, expire, running, status, statuses
from tests.integration.queue.sabotage import take_out
from tests.integration.queue.verbs import cancel, complete, heartbeat
from tests.waiting import wait_until

PATIENCE_SECONDS = 120.0


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def is_waiting(conn: Connection, waiter: Connection) -> bool:
    row = conn.execute(
        "select cardinality(pg_blocking_pids(%s)) > 0", [waiter.info.backend_pid]
    ).fetchone()
    return bool(one(row)[0])


def blocked(conn: Connection, waiter: Connection, doing: Future[Any]) -> None:
    wait_until(lambda: is_waiting(conn, waiter) or doing.done())
    assert not doing.done(), "it did not wait"


@pytest.mark.parametrize("guard", [None, "channel lock"])
def test_a_limit_holds_against_a_take_that_is_not_committed(
    conn: Connection, session: OpenSession, guard: str | None
) -> None:
    if guard:
        take_out(conn, guard)
    first, second = session(), session()
    set_channel(conn, "c", Policy(max_concurrency=2))
    put(conn, *(Job("c") for _ in range(5)))
    with first.transaction():
        assert len(take(first, 2)) == 2
        take(second, 2)
    take(second, 2)
    assert (running(conn, "c") > 2) is (guard is not None)


@pytest.mark.parametrize("guard", [None, "count under the lock"])
def test_a_limit_holds_against_a_take_that_is_committed(
    conn: Connection, guard: str | None
) -> None:
    if guard:
        take_out(conn, guard)
    set_channel(conn, "c", Policy(max_concurrency=2))
    put(conn, *(Job("c") for _ in range(5)))
    take(conn, 1)
    # Not through take(), which would not even propose the channel once it is full.
    conn.execute("select milepost.take_from(array['c'], 9)")
    conn.execute("select milepost.take_from(array['c'], 9)")
    assert (running(conn, "c") > 2) is (guard is not None)


@pytest.mark.parametrize("guard", [None, "channel lock", "release time"])
def test_a_release_interval_holds_against_a_take_at_the_same_time(
    conn: Connection, session: OpenSession, guard: str | None
) -> None:
    if guard:
        take_out(conn, guard)
    first, second = session(), session()
    set_channel(conn, "c", Policy(release_interval=timedelta(hours=1)))
    conn.execute("update milepost.channels set next_release_at = clock_timestamp()")
    put(conn, *(Job("c") for _ in range(5)))
    with first.transaction():
        # Without its guard the second take still meets the first one's new release time.
        take(first, 1)
        if guard != "channel lock":
            take(second, 1)
        else:
            second.execute("set lock_timeout = '200ms'")
            with pytest.raises(Exception, match="lock timeout"):
                take(second, 1)
    take(second, 1)
    assert running(conn, "c") == (1 if guard != "release time" else 2)


@pytest.mark.parametrize("guard", [None, "set_channel's lock", "takers' lock"])
def test_a_policy_waits_for_the_takes_under_way_and_holds_up_new_ones(
    conn: Connection, session: OpenSession, pool: ThreadPoolExecutor, guard: str | None
) -> None:
    if guard:
        take_out(conn, guard)
    taker, other, setter = session(), session(), session()
    put(conn, *(Job("c") for _ in range(5)))
    with taker.transaction():
        assert len(take(taker, 2)) == 2
        setting = pool.submit(set_channel, setter, "c", Policy(max_concurrency=1))
        if guard:
            setting.result(PATIENCE_SECONDS)
        else:
            blocked(conn, setter, setting)
        taking = pool.submit(take, other, 9)
        if guard:
            taking.result(PATIENCE_SECONDS)
        else:
            blocked(conn, other, taking)
    # The two that ran already may go on; no third one may join them.
    assert len(taking.result(PATIENCE_SECONDS)) == (1 if guard else 0)
    setting.result(PATIENCE_SECONDS)
    assert policies(conn) == {"c": Policy(max_concurrency=1)}


def test_a_put_in_a_long_transaction_blocks_nobody_and_hides_nothing(
    conn: Connection, session: OpenSession
) -> None:
    business = session()
    conn.execute("set lock_timeout = '2s'")
    set_channel(conn, "limited", Policy(max_concurrency=3, max_size=10))
    with business.transaction():
        for name in ("limited", "new"):
            put(business, Job(name, "business"), Job(name, unique_key="theirs"))
        for name in ("limited", "new"):
            put(conn, Job(name, "mine"), Job(name, unique_key="mine"))
        set_channel(conn, "new", Policy(max_concurrency=4))
        set_channel(conn, "limited", Policy(max_concurrency=4))
        jobs = take(conn, 10)
        assert [job.channel for job in jobs] == ["limited"] * 2 + ["new"] * 2
        assert complete(conn, jobs[:1]) == [Verdict.DONE]
    jobs = take(conn, 10)
    assert [job.channel for job in jobs] == ["limited"] * 2 + ["new"] * 2


def test_two_first_jobs_of_a_channel_and_its_first_policies_at_once(
    conn: Connection, session: OpenSession, pool: ThreadPoolExecutor
) -> None:
    sessions = [session() for _ in range(6)]
    for number in range(20):
        name = f"new{number}"
        policy = Policy(max_concurrency=1)
        doing: list[Future[Any]] = [pool.submit(put, s, Job(name)) for s in sessions[:3]]
        doing += [pool.submit(set_channel, s, name, policy) for s in sessions[3:]]
        for future in doing:
            future.result(PATIENCE_SECONDS)
        assert policies(conn)[name] == policy
        assert len(take(conn, 9, pattern=name)) == 1
    assert statuses(conn) == {"ready": 40, "running": 20}


@pytest.mark.parametrize("guard", [None, "order of completion"])
def test_completing_in_plain_sql_holds_no_later_job_while_it_waits_for_an_earlier_one(
    conn: Connection, session: OpenSession, pool: ThreadPoolExecutor, guard: str | None
) -> None:
    """A job that is kept and one that is not: what complete() changes in two statements."""
    if guard:
        take_out(conn, guard)
    holder, worker, other = session(), session(), session()
    kept, gone = put(conn, Job("c", keep_for=timedelta(hours=1)), Job("c"))
    take(conn, 2)
    with holder.transaction():
        holder.execute("select from milepost.jobs where id = %s for update", [kept])
        statement = "select milepost.complete(%s, array[1, 1])::text"
        completing = pool.submit(lambda: worker.execute(statement, [[kept, gone]]).fetchall())
        blocked(conn, worker, completing)
        row = other.execute(
            "select count(*) from (select from milepost.jobs where id = %s "
            "for update skip locked) as free",
            [gone],
        ).fetchone()
        assert (one(row)[0] == 0) is (guard is not None)
    assert completing.result(PATIENCE_SECONDS) == [("done",), ("done",)]


@pytest.mark.parametrize("guard", [None, "order of locks"])
def test_cancelling_and_completing_in_different_orders_do_not_block_each_other_for_ever(
    conn: Connection, session: OpenSession, pool: ThreadPoolExecutor, guard: str | None
) -> None:
    """A dead job and a running one: what cancel() changes in two statements. A session holds up
    the running one, so that the others queue behind it in the order in which they lock."""
    if guard:
        take_out(conn, guard)
    holder, canceller, other = session(), session(), session()
    low, high = put(conn, Job("c"), Job("c"))
    jobs = take(conn, 2)
    conn.execute("select milepost.fail(array[%s], array[1], finals => array[true])", [high])
    with holder.transaction():
        holder.execute("select from milepost.jobs where id = %s for update", [low])
        cancelling = pool.submit(cancel, canceller, [high, low])
        blocked(conn, canceller, cancelling)
        # Whether the canceller holds the higher one while it waits for the lower one.
        row = other.execute(
            "select count(*) from (select from milepost.jobs where id = %s "
            "for update skip locked) as free",
            [high],
        ).fetchone()
        assert (one(row)[0] == 0) is (guard is not None)
    assert cancelling.result(PATIENCE_SECONDS) == [Verdict.DONE, Verdict.CANCELLED]
    assert complete(conn, jobs[:1]) == [Verdict.DONE]


@pytest.mark.parametrize("guard", [None, "fence"])
def test_a_stale_worker_changes_nothing(conn: Connection, guard: str | None) -> None:
    if guard:
        take_out(conn, guard)
    put(conn, Job("c"))
    (stale,) = take(conn, 1)
    expire(conn, [stale.id])
    take(conn, 1)
    assert complete(conn, [stale]) == [Verdict.DONE if guard else Verdict.STALE]
    assert (status(conn, stale.id) == "running") is (guard is None)


def test_a_heartbeat_does_not_wait_for_a_completion_under_way(
    conn: Connection, session: OpenSession
) -> None:
    put(conn, Job("c"), Job("c"))
    jobs = take(conn, 2)
    completing = session()
    conn.execute("set lock_timeout = '2s'")
    with completing.transaction():
        complete(completing, jobs[:1])
        assert heartbeat(conn, jobs) == [Verdict.DONE, Verdict.DONE]
    assert heartbeat(conn, jobs) == [Verdict.GONE, Verdict.DONE]


def test_a_completion_under_way_keeps_an_expired_job_from_being_taken_back(
    conn: Connection, session: OpenSession
) -> None:
    put(conn, Job("c"), Job("c"))
    jobs = take(conn, 2)
    expire(conn, [job.id for job in jobs])
    completing = session()
    with completing.transaction():
        complete(completing, jobs[:1])
        again = take(conn, 9)
    assert [(job.id, job.attempt) for job in again] == [(jobs[1].id, 2)]
    duties_due(conn)
    assert not take(conn, 9)


def test_a_completion_that_waited_for_a_recovery_is_stale(
    conn: Connection, session: OpenSession, pool: ThreadPoolExecutor
) -> None:
    put(conn, Job("c"))
    jobs = take(conn, 1)
    expire(conn, [jobs[0].id])
    taker, worker = session(), session()
    with taker.transaction():
        assert len(take(taker, 1)) == 1
        completing = pool.submit(complete, worker, jobs)
        blocked(conn, worker, completing)
    assert completing.result(PATIENCE_SECONDS) == [Verdict.STALE]


def test_a_hinted_take_obeys_the_limits(conn: Connection) -> None:
    set_channel(conn, "c", Policy(max_concurrency=2))
    put(conn, *(Job("c") for _ in range(5)), Job("free"))
    (first, *_) = take(conn, 1, pattern="c")
    head = (first.priority, first.run_at, first.id)
    jobs = take_from(conn, {"c": head, "free": head}, 9)
    assert [job.channel for job in jobs] == ["c", "free"]
