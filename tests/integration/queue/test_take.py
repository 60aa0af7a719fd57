"""Which jobs are taken, in which order, and for how long."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from milepost.db import Connection, one
from milepost.errors import UnsafeTake
from milepost.queue import Policy, Taker, put, set_channel
from milepost.queue.verbs import complete, take, take_from
from milepost.queue.worker.rotation import Rotation
from milepost.records import Job
from tests.integration.queue.conftest import OpenSession
from tests.integration.queue.jobs import duties_due, expire, statuses
from tests.waiting import wait_until


def test_lower_priorities_come_first_then_earlier_times_then_earlier_puts(conn: Connection) -> None:
    day = datetime(2020, 1, 1, tzinfo=UTC)
    put(conn, Job("c", "later", run_at=day + timedelta(1)), Job("c", "urgent", priority=-1))
    put(conn, Job("c", "first", run_at=day), Job("c", "second", run_at=day))
    assert [job.content for job in take(conn, 9)] == ["urgent", "first", "second", "later"]


def test_a_job_is_taken_once_until_its_lock_expires(conn: Connection) -> None:
    (id_,) = put(conn, Job("c"))
    assert [job.attempt for job in take(conn, 9)] == [1]
    assert not take(conn, 9)
    expire(conn, [id_])
    assert [(job.attempt, job.failures) for job in take(conn, 9)] == [(2, 1)]


def test_a_lock_taken_late_in_a_long_transaction_lasts_its_whole_time(conn: Connection) -> None:
    put(conn, Job("c"))
    with conn.transaction():
        conn.execute("select now(), pg_sleep(0.2)")
        before = one(conn.execute("select clock_timestamp()").fetchone())[0]
        take(conn, 1, lock_seconds=0.1)
        until = one(conn.execute("select locked_until from milepost.jobs").fetchone())[0]
    assert until >= before + timedelta(seconds=0.1)


@pytest.mark.parametrize(
    ("pattern", "channels"),
    [
        ("*", ["a", "a*", "a.1", "a.2", "b", "\U0010ffff"]),
        ("a*", ["a", "a*", "a.1", "a.2"]),
        ("a.*", ["a.1", "a.2"]),
        ("a", ["a"]),
        ("a**", ["a*"]),
        ("b*", ["b"]),
        ("c*", []),
        ("c", []),
        ("\U0010ffff*", ["\U0010ffff"]),
    ],
)
def test_a_pattern_is_a_name_or_a_prefix_and_a_star(
    conn: Connection, pattern: str, channels: list[str]
) -> None:
    put(conn, *(Job(name) for name in ("a", "a.1", "a.2", "a*", "b", "\U0010ffff")))
    assert [job.channel for job in take(conn, 10, pattern=pattern)] == channels


@pytest.mark.parametrize(
    ("after", "channels"),
    [
        (None, "abcd"),
        ("", "abcd"),
        ("a", "bcda"),
        ("bb", "cdab"),
        ("d", "abcd"),
        ("z", "abcd"),
        ("0", "abcd"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "p."])
def test_the_rotation_begins_after_a_channel_and_comes_round(
    conn: Connection, after: str | None, channels: str, prefix: str
) -> None:
    others = [Job(name) for name in ("", "o", "q") if name and prefix]
    put(conn, *(Job(prefix + name) for name in "dbca"), *others)
    start = None if after is None else prefix + after
    jobs = take(conn, 10, pattern=f"{prefix}*", after=start)
    assert [job.channel for job in jobs] == [prefix + name for name in channels]


@pytest.mark.parametrize("after", ["o", "q"])
def test_a_place_outside_of_the_pattern_does_not_matter(conn: Connection, after: str) -> None:
    put(conn, *(Job(name) for name in ("p.1", "p.2", "o", "q")))
    jobs = take(conn, 10, pattern="p.*", after=after)
    assert [job.channel for job in jobs] == ["p.1", "p.2"]


def test_each_channel_gets_an_equal_share(conn: Connection) -> None:
    put(conn, *(Job("busy") for _ in range(300)), *(Job(f"calm{n}") for n in range(4)))
    shares = Counter(job.channel for job in take(conn, 100))
    assert shares == {"busy": 20, "calm0": 1, "calm1": 1, "calm2": 1, "calm3": 1}


@pytest.mark.parametrize("policy", [Policy(), Policy(max_concurrency=100)])
def test_what_cannot_be_shared_equally_differs_by_one(conn: Connection, policy: Policy) -> None:
    for name in "abc":
        put(conn, *(Job(name) for _ in range(10)))
        set_channel(conn, name, policy)
    shares = Counter(job.channel for job in take(conn, 8))
    assert shares == {"a": 3, "b": 3, "c": 2}


def test_a_channel_with_limits_that_is_named_twice_gets_one_share(conn: Connection) -> None:
    put(conn, *(Job("c") for _ in range(10)))
    set_channel(conn, "c", Policy(max_concurrency=3))
    statement = "select count(*) from milepost.take_from(array['c', 'c', 'c'], 9)"
    assert one(conn.execute(statement).fetchone())[0] == 3


def test_from_no_channels_nothing_is_taken(conn: Connection) -> None:
    put(conn, Job("c"))
    assert conn.execute("select * from milepost.take_from('{}', 9)").fetchall() == []


def test_a_taker_with_little_in_each_channel_looks_at_more_of_them(conn: Connection) -> None:
    put(conn, *(Job(f"c{n}") for n in range(300)))
    taker = Taker(rotation=Rotation(slow_seconds=60))
    assert [len(taker.take(conn, 500)) for _ in range(3)] == [50, 100, 150]


def test_a_fresh_channel_waits_for_one_rotation_at_most(conn: Connection) -> None:
    put(conn, *(Job(f"busy{n % 10}") for n in range(2_000)))
    taker = Taker(rotation=Rotation(slow_seconds=60))
    for _ in range(7):
        complete(conn, taker.take(conn, 2))
    put(conn, Job("fresh"))
    for _turn in range(6):
        jobs = taker.take(conn, 2)
        if any(job.channel == "fresh" for job in jobs):
            return
    raise AssertionError("11 channels, 2 a take: it should have come by the sixth")


def test_a_taker_serves_every_channel_in_its_turn(conn: Connection) -> None:
    put(conn, *(Job(f"c{n % 7}") for n in range(70)))
    taker = Taker(rotation=Rotation(slow_seconds=60))
    for number in range(1, 8):
        for _ in range(7):
            complete(conn, taker.take(conn, 1))
        left = conn.execute("select distinct count(*) from milepost.jobs group by channel")
        assert left.fetchall() == [(10 - number,)]


def test_before_the_head_only_more_urgent_jobs_are_looked_for(conn: Connection) -> None:
    ids = put(conn, *(Job("c", n) for n in range(10)))
    *_, last = take(conn, 3)
    sooner, later = put(conn, Job("c", priority=-1), Job("c"))
    heads = {"c": (0, last.run_at, last.id), "empty": (0, last.run_at, 1)}
    (before,) = put(conn, Job("c", run_at=last.run_at - timedelta(hours=1)))
    assert [job.id for job in take_from(conn, heads, 100)] == [sooner, *ids[3:], later]
    assert [job.id for job in take(conn, 100)] == [before]


def test_the_duties_may_be_left_to_the_next_take(conn: Connection) -> None:
    (expired,) = put(conn, Job("c"))
    taker = Taker("c", rotation=Rotation(slow_seconds=60))  # it never looks by hints
    taker.take(conn, 1)
    expire(conn, [expired])
    (fresh,) = put(conn, Job("c"))
    assert [job.id for job in taker.take(conn, 9, with_duties=False)] == [fresh]
    assert [job.id for job in taker.take(conn, 9)] == [expired]


def test_two_takers_never_get_the_same_job(session: OpenSession) -> None:
    first, second = session(), session()
    put(first, *(Job("c") for _ in range(10)))
    with first.transaction(), second.transaction():
        taken = [{job.id for job in take(s, 6)} for s in (first, second)]
    assert [len(ids) for ids in taken] == [6, 4]
    assert not taken[0] & taken[1]


def test_a_taker_passes_by_channels_that_others_are_taking_from(
    conn: Connection, session: OpenSession
) -> None:
    for name in "abc":
        conn.execute("select milepost.set_channel(%s, max_concurrency => 1)", [name])
        put(conn, Job(name), Job(name))
    other = session()
    with other.transaction():
        assert [job.channel for job in take(other, 2)] == ["a", "b"]
        assert [job.channel for job in take(conn, 1)] == ["c"]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_taking_is_refused_where_limits_would_not_hold(conn: Connection, level: str) -> None:
    put(conn, Job("c"))
    with conn.transaction(force_rollback=True):
        conn.execute(f"set transaction isolation level {level}".encode())
        with pytest.raises(UnsafeTake, match="READ COMMITTED"):
            take(conn, 1)
    assert statuses(conn) == {"ready": 1}


def pause_ms(conn: Connection) -> float:
    """For how long due jobs are not looked for now."""
    query = """select last_value - extract(epoch from clock_timestamp())::float8 * 1000
        from milepost.jobs_promote_at"""
    return float(one(conn.execute(query).fetchone())[0])


def test_only_slow_looks_in_a_row_are_followed_by_a_long_pause(conn: Connection) -> None:
    """One may be slow because the machine is. The next hop of a chain does not wait for it."""
    conn.execute(
        """create or replace function milepost.promote_due(max_count integer default 1000)
        returns bigint language plpgsql as $$ begin perform pg_sleep(0.1); return 0; end $$"""
    )
    duties_due(conn)
    conn.execute("select milepost.queue_duties()")
    assert pause_ms(conn) <= 50
    wait_until(lambda: pause_ms(conn) <= 0)
    conn.execute("select milepost.queue_duties()")
    assert pause_ms(conn) > 500


def test_more_due_jobs_than_are_promoted_at_once_become_ready(conn: Connection) -> None:
    put(conn, *(Job("c", run_at=timedelta(milliseconds=1)) for _ in range(2_500)))
    taken = 0
    for _ in range(20):
        taken += len(take(conn, 2_500))
    assert taken == 2_500
