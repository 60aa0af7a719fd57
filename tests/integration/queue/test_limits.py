"""The limits of a channel hold, whoever takes and whatever happens to its policy."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from milepost import Milepost
from milepost.db import Connection, one
from milepost.errors import InvalidPolicy, UnknownChannel
from milepost.queue import Policy, pause_channel, policies, put, set_channel
from milepost.queue.verbs import take
from milepost.records import Job, TakenJob
from tests.integration.queue.jobs import expire, running
from tests.integration.queue.verbs import cancel_running, complete, defer, fail, give_back
from tests.waiting import wait_until

HOUR = timedelta(hours=1)


@pytest.fixture
def three(conn: Connection) -> list[int]:
    """The ids of three jobs in the channel `c`."""
    return put(conn, *(Job("c") for _ in range(3)))


def test_no_more_jobs_run_than_the_channel_allows(conn: Connection, three: list[int]) -> None:
    set_channel(conn, "c", Policy(max_concurrency=2))
    jobs = take(conn, 9)
    assert [job.id for job in jobs] == three[:2]
    assert not take(conn, 9)
    complete(conn, jobs[:1])
    assert [job.id for job in take(conn, 9)] == three[2:]


@pytest.mark.parametrize("end", [complete, defer, fail, give_back, cancel_running])
def test_whatever_ends_an_attempt_frees_its_slot(
    conn: Connection, three: list[int], end: object
) -> None:
    set_channel(conn, "c", Policy(max_concurrency=1))
    jobs = take(conn, 9)
    assert callable(end)
    end(conn, jobs)
    assert len(take(conn, 9)) == 1
    assert running(conn, "c") == 1


def test_an_expired_job_is_taken_again_without_a_second_slot(
    conn: Connection, three: list[int]
) -> None:
    set_channel(conn, "c", Policy(max_concurrency=2))
    first = take(conn, 9)
    expire(conn, [first[0].id])
    assert [(job.id, job.attempt) for job in take(conn, 9)] == [(first[0].id, 2)]
    assert not take(conn, 9)
    # The stale worker frees nothing.
    complete(conn, first[:1])
    assert not take(conn, 9)


def test_a_dead_job_frees_its_slot(conn: Connection) -> None:
    set_channel(conn, "c", Policy(max_concurrency=1))
    put(conn, Job("c", max_attempts=1), Job("c"))
    (job,) = take(conn, 9)
    expire(conn, [job.id])
    assert [other.id > job.id for other in take(conn, 9)] == [True]


def test_a_policy_takes_effect_at_once_for_all_its_fields(
    conn: Connection, three: list[int]
) -> None:
    set_channel(conn, "c", Policy(1, HOUR, 3, paused=True))
    assert policies(conn) == {"c": Policy(1, HOUR, 3, paused=True)}
    assert not take(conn, 9)
    set_channel(conn, "c", Policy(max_concurrency=1))
    assert len(take(conn, 9)) == 1
    set_channel(conn, "c", Policy(max_concurrency=2))
    assert len(take(conn, 9)) == 1
    set_channel(conn, "c", Policy())
    assert len(take(conn, 9)) == 1
    assert policies(conn) == {}


def test_a_lower_limit_waits_until_enough_have_ended(conn: Connection, three: list[int]) -> None:
    jobs = take(conn, 2)
    set_channel(conn, "c", Policy(max_concurrency=1))
    complete(conn, jobs[:1])
    assert not take(conn, 9)
    complete(conn, jobs[1:])
    assert len(take(conn, 9)) == 1


def test_a_paused_channel_gives_nothing_and_keeps_its_policy(
    conn: Connection, three: list[int]
) -> None:
    set_channel(conn, "c", Policy(max_concurrency=1))
    set_channel(conn, "new", Policy())
    pause_channel(conn, "c")
    pause_channel(conn, "new")
    put(conn, Job("new"), Job("free"))
    assert [job.channel for job in take(conn, 9)] == ["free"]
    for name in ("c", "new"):
        pause_channel(conn, name, paused=False)
    assert policies(conn) == {"c": Policy(max_concurrency=1)}
    assert [job.channel for job in take(conn, 9)] == ["c", "new"]


@pytest.mark.parametrize("status", ["ready", "scheduled", "running", "dead", "waiting"])
def test_a_channel_is_known_by_jobs_of_any_state(conn: Connection, status: str) -> None:
    before = put(conn, Job("other"))
    put(conn, Job("c", after=before if status == "waiting" else ()))
    if status == "running":
        take(conn, 9)
    elif status != "waiting":
        conn.execute("update milepost.jobs set status = %s where channel = 'c'", [status])
    pause_channel(conn, "c")
    for name in ("b", "cc", "d*"):
        with pytest.raises(UnknownChannel):
            pause_channel(conn, name)


def next_release(conn: Connection) -> datetime:
    row = conn.execute("select next_release_at from milepost.channels where name = 'c'")
    time = one(row.fetchone())[0]
    assert isinstance(time, datetime)
    return time


def let_pass(conn: Connection) -> None:
    conn.execute("update milepost.channels set next_release_at = clock_timestamp()")


def test_one_job_is_released_an_interval(conn: Connection, three: list[int]) -> None:
    set_channel(conn, "c", Policy(release_interval=HOUR))
    for id_ in three:
        assert not take(conn, 9)
        let_pass(conn)
        assert [job.id for job in take(conn, 9)] == [id_]


def test_a_new_interval_counts_from_the_last_release(conn: Connection, three: list[int]) -> None:
    set_channel(conn, "c", Policy(release_interval=HOUR))
    let_pass(conn)
    take(conn, 1)
    release = next_release(conn) - HOUR
    for interval in (2 * HOUR, timedelta(minutes=1)):
        set_channel(conn, "c", Policy(release_interval=interval))
        assert next_release(conn) == release + interval
        assert not take(conn, 1)
    set_channel(conn, "c", Policy(release_interval=timedelta(microseconds=1)))
    assert len(take(conn, 1)) == 1


def test_an_interval_may_be_a_number_of_seconds(mp: Milepost, conn: Connection) -> None:
    mp.set_channel("c", release_interval=0.1)
    assert policies(conn) == {"c": Policy(release_interval=timedelta(milliseconds=100))}
    with pytest.raises(InvalidPolicy, match="max_concurrency is 0"):
        mp.set_channel("c", max_concurrency=0)
    assert mp.unset_channel("c")
    assert policies(conn) == {}


def test_releases_keep_their_distance(conn: Connection) -> None:
    interval = timedelta(milliseconds=20)
    set_channel(conn, "c", Policy(release_interval=interval))
    put(conn, *(Job("c") for _ in range(10)))
    jobs: list[TakenJob] = []

    def have_all() -> bool:
        jobs.extend(take(conn, 9))
        return len(jobs) == 10

    wait_until(have_all)
    times = conn.execute("select locked_until from milepost.jobs order by taken").fetchall()
    gaps = [later[0] - sooner[0] for sooner, later in pairwise(times)]
    assert min(gaps) >= interval


def test_a_channel_that_is_named_twice_gets_one_share(conn: Connection, three: list[int]) -> None:
    set_channel(conn, "c", Policy(max_concurrency=1))
    conn.execute("select milepost.take_from(array['c', 'c'], 9)")
    assert running(conn, "c") == 1


def test_the_hint_about_the_oldest_running_job_moves_and_hides_none(conn: Connection) -> None:
    set_channel(conn, "c", Policy(max_concurrency=2))
    put(conn, *(Job("c") for _ in range(5)))
    (old,) = take(conn, 1)
    conn.execute("select setval('milepost.jobs_taken_seq', 1000000)")
    (new,) = take(conn, 1)
    hint = "select oldest_running from milepost.channels"
    taken = one(conn.execute("select min(taken) from milepost.jobs").fetchone())[0]
    assert one(conn.execute(hint).fetchone())[0] == taken
    assert not take(conn, 1)
    complete(conn, [old])
    conn.execute("select setval('milepost.jobs_taken_seq', 2000000)")
    assert len(take(conn, 9)) == 1
    assert one(conn.execute(hint).fetchone())[0] > 1_000_000
    assert not take(conn, 9)
    complete(conn, [new])
    assert len(take(conn, 9)) == 1
