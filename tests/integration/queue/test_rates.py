"""A rate holds over all workers: N jobs in a period, with a burst."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from milepost.db import Connection, one
from milepost.queue import Policy, Rate, put, set_channel
from milepost.queue.verbs import take
from milepost.queue.worker.idle import look
from milepost.records import Job, TakenJob
from tests.integration.queue.conftest import OpenSession
from tests.integration.queue.jobs import expire, running
from tests.integration.queue.sabotage import take_out
from tests.integration.queue.verbs import complete
from tests.waiting import wait_until

HOUR = timedelta(hours=1)
SLOW = Rate(2, per=HOUR, burst=3)


@pytest.fixture
def ten(conn: Connection) -> list[int]:
    return put(conn, *(Job("c", n) for n in range(10)))


def pass_time(conn: Connection, time: timedelta) -> None:
    """For the rate of the channel `c`."""
    conn.execute("update milepost.channels set rate_at = rate_at - %s where name = 'c'", [time])


def rate_at(conn: Connection) -> datetime:
    row = conn.execute("select rate_at from milepost.channels where name = 'c'")
    time = one(row.fetchone())[0]
    assert isinstance(time, datetime)
    return time


def test_a_burst_is_taken_without_a_pause_and_then_the_rate(
    conn: Connection, ten: list[int]
) -> None:
    set_channel(conn, "c", Policy(rate=SLOW))
    assert [job.id for job in take(conn, 9)] == ten[:3]
    assert not take(conn, 9)
    pass_time(conn, timedelta(minutes=29))
    assert not take(conn, 9)
    pass_time(conn, timedelta(minutes=1))
    assert [job.id for job in take(conn, 9)] == ten[3:4]
    pass_time(conn, timedelta(minutes=60))
    assert [job.id for job in take(conn, 9)] == ten[4:6]


def test_what_was_not_taken_adds_up_to_the_burst_and_no_further(
    conn: Connection, ten: list[int]
) -> None:
    set_channel(conn, "c", Policy(rate=SLOW))
    assert len(take(conn, 1)) == 1
    pass_time(conn, 100 * HOUR)
    assert len(take(conn, 9)) == 3
    assert not take(conn, 9)


def test_only_what_is_taken_is_spent(conn: Connection) -> None:
    set_channel(conn, "c", Policy(rate=SLOW))
    put(conn, Job("c"))
    assert len(take(conn, 9)) == 1
    assert not take(conn, 9)
    put(conn, *(Job("c") for _ in range(5)))
    assert len(take(conn, 9)) == 2


def test_without_a_burst_there_is_one_at_a_time(conn: Connection, ten: list[int]) -> None:
    set_channel(conn, "c", Policy(rate=Rate(2, per=HOUR)))
    assert len(take(conn, 9)) == 1
    pass_time(conn, timedelta(minutes=30))
    assert len(take(conn, 9)) == 1


def test_jobs_that_end_or_expire_give_nothing_back(conn: Connection, ten: list[int]) -> None:
    set_channel(conn, "c", Policy(rate=SLOW))
    jobs = take(conn, 9)
    complete(conn, jobs[:1])
    expire(conn, [job.id for job in jobs[1:]])
    assert not take(conn, 9)


def test_a_take_that_is_rolled_back_spends_nothing(conn: Connection, ten: list[int]) -> None:
    set_channel(conn, "c", Policy(rate=SLOW))
    with conn.transaction(force_rollback=True):
        assert len(take(conn, 9)) == 3
    assert len(take(conn, 9)) == 3


@pytest.mark.parametrize("guard", [None, "rate spent"])
def test_a_rate_holds_for_takes_one_after_the_other(
    conn: Connection, ten: list[int], guard: str | None
) -> None:
    if guard:
        take_out(conn, guard)
    set_channel(conn, "c", Policy(rate=SLOW))
    for _ in range(3):
        conn.execute("select milepost.take_from(array['c'], 9)")
    assert (running(conn, "c") > 3) is (guard is not None)


@pytest.mark.parametrize("guard", [None, "channel lock"])
def test_a_rate_holds_against_a_take_that_is_not_committed(
    conn: Connection, session: OpenSession, ten: list[int], guard: str | None
) -> None:
    if guard:
        take_out(conn, guard)
    first, second = session(), session()
    set_channel(conn, "c", Policy(rate=SLOW))
    second.execute("set lock_timeout = '200ms'")
    with first.transaction():
        assert len(take(first, 9)) == 3
        if guard is None:
            assert not take(second, 9)
        else:  # it waits for the row, to spend the same part of the rate
            with pytest.raises(Exception, match="lock timeout"):
                take(second, 9)
    assert not take(second, 9)


def test_a_rate_of_a_family_is_for_each_of_its_channels(conn: Connection) -> None:
    set_channel(conn, "tenant.*", Policy(rate=SLOW))
    put(conn, *(Job(f"tenant.{name}") for name in "ab" for _ in range(5)))
    assert [job.channel for job in take(conn, 99)] == ["tenant.a"] * 3 + ["tenant.b"] * 3
    assert not take(conn, 9)


def test_a_rate_that_changes_counts_what_was_spent(conn: Connection, ten: list[int]) -> None:
    set_channel(conn, "c", Policy(rate=SLOW))
    take(conn, 9)
    spent = rate_at(conn)
    set_channel(conn, "c", Policy(rate=Rate(4, per=HOUR, burst=3)))
    assert rate_at(conn) == spent
    assert not take(conn, 9)


def test_a_worker_that_found_nothing_knows_when_the_rate_allows_the_next(
    conn: Connection, ten: list[int]
) -> None:
    set_channel(conn, "c", Policy(rate=SLOW))
    take(conn, 9)
    seconds, _ = look(conn, "milepost")
    assert seconds is not None
    assert 1700 < seconds <= 1800
    set_channel(conn, "c", Policy(rate=SLOW, paused=True))
    assert look(conn, "milepost")[0] is None


def test_takes_keep_to_the_rate_in_real_time(conn: Connection) -> None:
    """By the server's clock: at any time no more than the burst and what has come back since."""
    per_second, burst = 200, 5
    set_channel(conn, "c", Policy(rate=Rate(per_second, burst=burst)))
    put(conn, *(Job("c") for _ in range(60)))
    jobs: list[TakenJob] = []

    def have_all() -> bool:
        jobs.extend(take(conn, 9))
        return len(jobs) == 60

    wait_until(have_all, look_seconds=0.001)
    rows = conn.execute("select locked_until from milepost.jobs order by taken").fetchall()
    times = [time for (time,) in rows]
    for first, start in enumerate(times):
        for number, end in enumerate(times[first:], start=1):
            assert number <= burst + (end - start).total_seconds() * per_second + 0.01
