"""Dead jobs that are deleted after a time, and priorities that age: both only where it was asked
for."""

from __future__ import annotations

from datetime import timedelta

import pytest

from milepost import Milepost, TakenJob
from milepost.db import Connection, one
from milepost.queue import Policy, Upkeep, admin, policies, put, set_channel, set_upkeep
from milepost.queue.verbs import take
from milepost.records import Job
from tests.integration.queue.conftest import OpenSession
from tests.integration.queue.jobs import column, duties_due, status, statuses
from tests.integration.queue.verbs import fail

DAY = timedelta(days=1)


def purge(conn: Connection, max_count: int = 1000) -> int:
    return int(one(conn.execute("select milepost.purge_dead(%s)", [max_count]).fetchone())[0])


def age(conn: Connection) -> int:
    conn.execute("update milepost.channel_upkeep set next_ageing_at = '-infinity'")
    return int(one(conn.execute("select milepost.age_ready()").fetchone())[0])


def die(conn: Connection, *channels: str, days: float = 2) -> list[int]:
    ids = put(conn, *(Job(channel) for channel in channels))
    jobs = take(conn, 100)
    fail(conn, jobs, finals=[True] * len(jobs))
    conn.execute(
        "update milepost.jobs set finished_at = finished_at - %s where id = any(%s)",
        [timedelta(days=days), ids],
    )
    return ids


# -- dead jobs


def test_dead_jobs_stay_by_default(conn: Connection) -> None:
    die(conn, "a", days=10_000)
    duties_due(conn)
    take(conn, 1)
    assert statuses(conn) == {"dead": 1}


def test_old_dead_jobs_of_a_channel_are_deleted_by_the_workers(
    conn: Connection, mp: Milepost
) -> None:
    mp.set_upkeep("a", keep_dead_for=DAY)
    old, other = die(conn, "a", "b")
    (young,) = die(conn, "a", days=0)
    duties_due(conn)
    take(conn, 1)
    assert [status(conn, id_) for id_ in (old, young, other)] == [None, "dead", "dead"]


def test_the_closest_policy_counts(conn: Connection) -> None:
    set_upkeep(conn, "*", Upkeep(DAY))
    set_upkeep(conn, "tenant.*", Upkeep(5 * DAY))
    set_upkeep(conn, "tenant.1", Upkeep(10 * DAY))
    set_upkeep(conn, "tenant.2", Upkeep(ageing=DAY))  # says nothing of dead jobs
    channels = ["tenant.1", "tenant.2", "tenant.3", "tenan", "z"]
    ids = die(conn, *channels, days=7)
    assert purge(conn) == 4
    assert status(conn, ids[0]) == "dead"
    set_upkeep(conn, "tenant.1", Upkeep())
    assert purge(conn) == 1


def test_only_channels_that_a_policy_names_are_purged(conn: Connection) -> None:
    """One is the name of a channel, one a prefix of names; two have nothing to delete."""
    for name in ("b", "d*", "e", "f*"):
        set_upkeep(conn, name, Upkeep(DAY))
    channels = ["a", "b", "bb", "c", "d", "dd", "dz", "g"]
    ids = die(conn, *channels)
    assert purge(conn) == 4
    left = [name for name, id_ in zip(channels, ids, strict=True) if status(conn, id_)]
    assert left == ["a", "bb", "c", "g"]


def test_they_are_deleted_in_portions_the_oldest_first(conn: Connection) -> None:
    set_upkeep(conn, "*", Upkeep(DAY))
    old = die(conn, "a", "a", days=5)
    young = die(conn, "a", days=3)
    assert purge(conn, 2) == 2
    assert [status(conn, id_) for id_ in (*old, *young)] == [None, None, "dead"]
    assert (purge(conn, 2), purge(conn, 2)) == (1, 0)


def test_a_dead_job_that_another_waits_for_stays(conn: Connection) -> None:
    set_upkeep(conn, "a", Upkeep(DAY))
    (first,) = die(conn, "a")
    (later,) = put(conn, Job("later", after=[first]))
    assert purge(conn) == 0
    admin.cancel(conn, "milepost", [later])
    conn.execute("select milepost.tend_followers()")
    assert purge(conn) == 1


def test_one_that_is_being_retried_is_left_alone(conn: Connection, session: OpenSession) -> None:
    set_upkeep(conn, "a", Upkeep(DAY))
    ids = die(conn, "a")
    operator = session()
    with operator.transaction():
        admin.retry(operator, "milepost", ids)
        assert purge(conn) == 0
    assert statuses(conn) == {"ready": 1}


# -- ageing


def wait_for(conn: Connection, waited: timedelta) -> None:
    conn.execute("update milepost.jobs set run_at = run_at - %s", [waited])


def test_priorities_do_not_age_by_default(conn: Connection) -> None:
    (id_,) = put(conn, Job("a", priority=3))
    wait_for(conn, 100 * DAY)
    duties_due(conn)
    take(conn, 1, pattern="nothing")
    assert (age(conn), column(conn, id_, "priority")) == (0, 3)


def test_a_job_moves_up_by_one_in_each_period_and_is_taken_in_the_end(conn: Connection) -> None:
    set_upkeep(conn, "a", Upkeep(ageing=timedelta(hours=1)))
    (old,) = put(conn, Job("a", priority=2))
    wait_for(conn, timedelta(hours=1))
    for expected in (1, 0):
        put(conn, Job("a", priority=0))
        assert age(conn) == 1
        assert column(conn, old, "priority") == expected
    assert [job.id for job in take(conn, 1)] == [old]


def test_workers_age_jobs_once_in_a_period(conn: Connection) -> None:
    set_upkeep(conn, "a", Upkeep(ageing=timedelta(hours=1)))
    (old,) = put(conn, Job("a", priority=2))
    wait_for(conn, timedelta(hours=5))
    conn.execute("update milepost.channel_upkeep set next_ageing_at = '-infinity'")
    for _ in range(3):
        duties_due(conn)
        take(conn, 1, pattern="nothing")
    assert column(conn, old, "priority") == 1


def test_all_priorities_of_all_channels_of_a_prefix_age_unless_one_has_its_own(
    conn: Connection,
) -> None:
    set_upkeep(conn, "t.*", Upkeep(ageing=DAY))
    set_upkeep(conn, "t.slow", Upkeep(ageing=10 * DAY))
    channels = ["s", "t.a", "t.a", "t.b", "t.slow", "u"]
    ids = put(conn, *(Job(name, priority=n) for n, name in enumerate(channels)))
    put(conn, Job("t.a", priority=-(2**15)))
    wait_for(conn, 2 * DAY)
    assert age(conn) == 3
    assert [column(conn, id_, "priority") for id_ in ids] == [0, 0, 1, 2, 4, 5]


def test_the_limits_of_a_channel_stay(conn: Connection) -> None:
    set_channel(conn, "a", Policy(max_concurrency=3))
    set_upkeep(conn, "a", Upkeep(DAY, DAY))
    set_upkeep(conn, "b", Upkeep(DAY))
    assert policies(conn) == {"a": Policy(max_concurrency=3)}
    set_channel(conn, "a", Policy(max_concurrency=4))
    (found,) = [c for c in admin.list_channels(conn, "milepost") if c.name == "a"]
    assert (found.max_concurrency, found.keep_dead_seconds, found.ageing_seconds) == (
        4, 86400.0, 86400.0
    )  # fmt: skip


@pytest.mark.parametrize("wrong", [timedelta(0), 60])
def test_what_is_no_time_is_refused(mp: Milepost, wrong: timedelta) -> None:
    with pytest.raises(ValueError, match="keep_dead_for is"):
        mp.set_upkeep("a", keep_dead_for=wrong)
    with pytest.raises(ValueError, match="ageing is"):
        mp.set_upkeep("a", ageing=wrong)


def test_a_worker_with_ageing_does_all_jobs(conn: Connection, mp: Milepost) -> None:
    mp.set_upkeep("*", ageing=timedelta(microseconds=1))
    done: list[int] = []

    @mp.worker("a")
    def work(job: TakenJob) -> None:
        done.append(job.id)

    ids = put(conn, *(Job("a", priority=n % 7) for n in range(100)))
    work.run("drained")
    assert sorted(done) == ids
