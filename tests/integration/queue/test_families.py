"""A policy for a family applies to each of its channels; the longest prefix wins; a limit over a
family holds whoever takes, at the same moment, and whatever becomes of the taker."""

from __future__ import annotations

from datetime import timedelta

import pytest

from milepost.db import Connection, one
from milepost.errors import ChannelFull, InvalidPolicy
from milepost.queue import Policy, Rate, pause_channel, policies, put, set_channel, unset_channel
from milepost.queue.admin import list_channels
from milepost.queue.verbs import take
from milepost.queue.worker.idle import is_drained
from milepost.records import Job
from tests.integration.queue.conftest import OpenSession
from tests.integration.queue.jobs import expire, running
from tests.integration.queue.sabotage import take_out
from tests.integration.queue.verbs import complete

HOUR = timedelta(hours=1)


def put_each(conn: Connection, *channels: str, count: int = 3) -> None:
    put(conn, *(Job(name) for name in channels for _ in range(count)))


def taken(conn: Connection, max_count: int = 100, pattern: str = "*") -> list[str]:
    return [job.channel for job in take(conn, max_count, pattern=pattern)]


def rows(conn: Connection) -> set[str]:
    return {name for (name,) in conn.execute("select name from milepost.channels").fetchall()}


def test_each_channel_of_a_family_has_its_limits(conn: Connection) -> None:
    set_channel(conn, "tenant.*", Policy(max_concurrency=2))
    put_each(conn, "tenant.a", "tenant.b", "tenant", "other")
    assert taken(conn) == ["other"] * 3 + ["tenant"] * 3 + ["tenant.a"] * 2 + ["tenant.b"] * 2
    assert taken(conn) == []


@pytest.mark.parametrize("pattern", ["tenant.new", "tenant.*"])
def test_a_channel_that_is_new_has_them_too(conn: Connection, pattern: str) -> None:
    set_channel(conn, "tenant.*", Policy(max_concurrency=1))
    taken(conn)
    put_each(conn, "tenant.new")
    assert taken(conn, pattern=pattern) == ["tenant.new"]
    assert taken(conn, pattern=pattern) == []


def test_the_longest_prefix_wins_with_its_whole_policy(conn: Connection) -> None:
    set_channel(conn, "*", Policy(max_concurrency=1))
    set_channel(conn, "tenant.*", Policy(max_concurrency=2, max_size=3))
    set_channel(conn, "tenant.big.*", Policy(max_concurrency=3))
    set_channel(conn, "tenant.vip", Policy())
    put_each(conn, "a", "tenant.a", "tenant.big.a", "tenant.vip", count=3)
    numbers = {name: taken(conn, pattern=name) for name in ("a", "tenant.a", "tenant.big.a")}
    assert {name: len(found) for name, found in numbers.items()} == {
        "a": 1, "tenant.a": 2, "tenant.big.a": 3,
    }  # fmt: skip
    assert len(taken(conn, pattern="tenant.vip")) == 3
    put_each(conn, "tenant.big.a", "tenant.vip")  # without a size
    with pytest.raises(ChannelFull):
        put(conn, Job("tenant.a"))


def test_a_put_adds_no_row_of_a_channel(conn: Connection) -> None:
    set_channel(conn, "tenant.*", Policy(max_concurrency=1, max_size=5))
    put(conn, Job("tenant.a"))
    put(conn, *(Job("tenant.b", n) for n in range(3)))
    put(conn, *(Job(f"tenant.{n}") for n in range(300)))
    assert rows(conn) == {"tenant.*"}
    for name in ("tenant.b", "tenant.c"):
        with pytest.raises(ChannelFull):
            put(conn, *(Job(name, n) for n in range(6)))


def test_reserved_channels_belong_to_no_family(conn: Connection) -> None:
    set_channel(conn, "*", Policy(max_concurrency=1))
    conn.execute("insert into milepost.jobs (channel, content) values ('milepost.x', '')")
    conn.execute("insert into milepost.jobs (channel, content) values ('milepost.x', '')")
    assert len(conn.execute("select milepost.take_from(array['milepost.x'], 9)").fetchall()) == 2


def test_a_policy_of_a_family_takes_effect_immediately_for_all_its_fields(
    conn: Connection,
) -> None:
    put_each(conn, "tenant.a", count=9)
    policy = Policy(2, HOUR, 20, max_concurrency_total=5, rate=Rate(1, HOUR, 3))
    for changed in (policy, Policy(max_concurrency=1), Policy(paused=True), Policy()):
        set_channel(conn, "tenant.*", changed)
        assert policies(conn).get("tenant.*", Policy()) == changed
    assert taken(conn, 2) == ["tenant.a"] * 2
    set_channel(conn, "tenant.*", Policy(max_concurrency=3))
    assert taken(conn) == ["tenant.a"]
    set_channel(conn, "tenant.*", Policy(paused=True))
    assert taken(conn) == []
    set_channel(conn, "tenant.*", Policy())
    assert taken(conn, 1) == ["tenant.a"]


def test_a_first_interval_of_a_family_begins_with_the_policy(conn: Connection) -> None:
    """For channels that were taken from under the family; a new one has released nothing yet."""
    set_channel(conn, "tenant.*", Policy(max_concurrency=9))
    put_each(conn, "tenant.a")
    assert taken(conn, 1) == ["tenant.a"]
    set_channel(conn, "tenant.*", Policy(release_interval=HOUR))
    put_each(conn, "tenant.b")
    assert taken(conn) == ["tenant.b"]
    assert taken(conn) == []
    # A shorter one counts from the last release.
    set_channel(conn, "tenant.*", Policy(release_interval=timedelta(microseconds=1)))
    assert taken(conn) == ["tenant.a", "tenant.b"]


def test_a_change_of_a_family_changes_one_row(conn: Connection) -> None:
    set_channel(conn, "tenant.*", Policy(max_concurrency=1))
    put_each(conn, "tenant.a", "tenant.b")
    taken(conn)
    before = conn.execute("select name, xmin::text from milepost.channels").fetchall()
    set_channel(conn, "tenant.*", Policy(max_concurrency=2, max_concurrency_total=3))
    after = conn.execute("select name, xmin::text from milepost.channels").fetchall()
    assert {name for name, _ in set(before) ^ set(after)} == {"tenant.*"}


def test_a_family_that_is_added_or_removed_takes_its_channels_along(conn: Connection) -> None:
    put_each(conn, "tenant.big.a", count=9)
    set_channel(conn, "tenant.*", Policy(max_concurrency=1))
    assert len(taken(conn)) == 1
    set_channel(conn, "tenant.big.*", Policy(max_concurrency=3))
    assert len(taken(conn)) == 2
    assert unset_channel(conn, "tenant.big.*")
    assert taken(conn) == []
    assert unset_channel(conn, "tenant.*")
    assert rows(conn) == set()
    assert len(taken(conn)) == 6
    assert not unset_channel(conn, "tenant.*")


def test_a_channel_whose_policy_is_removed_returns_to_its_family(conn: Connection) -> None:
    set_channel(conn, "tenant.*", Policy(max_concurrency=1))
    set_channel(conn, "tenant.vip", Policy())
    assert policies(conn)["tenant.vip"] == Policy()
    put_each(conn, "tenant.vip", count=5)
    assert len(taken(conn, 2)) == 2
    assert unset_channel(conn, "tenant.vip")
    assert taken(conn) == []
    assert list(policies(conn)) == ["tenant.*"]


def test_a_family_is_paused_and_resumed(conn: Connection) -> None:
    put_each(conn, "tenant.a", "other")
    pause_channel(conn, "tenant.*")
    assert set(taken(conn)) == {"other"}
    conn.execute("delete from milepost.jobs where channel = 'other'")
    assert is_drained(conn, "milepost", "*")
    pause_channel(conn, "tenant.*", paused=False)
    assert not is_drained(conn, "milepost", "*")
    assert len(taken(conn)) == 3


def test_a_pause_leaves_the_limits_of_the_family(conn: Connection) -> None:
    """Of a channel of a family, and of a smaller family; also when it is over."""
    set_channel(conn, "tenant.*", Policy(max_concurrency=1))
    put_each(conn, "tenant.a", "tenant.b.x")
    for name in ("tenant.a", "tenant.b.*"):
        pause_channel(conn, name)
    assert taken(conn) == []
    for name in ("tenant.a", "tenant.b.*"):
        pause_channel(conn, name, paused=False)
    assert taken(conn) == ["tenant.a", "tenant.b.x"]
    assert taken(conn) == []


def test_a_channel_that_was_paused_once_joins_a_family_that_is_set_later(conn: Connection) -> None:
    put_each(conn, "tenant.a")
    pause_channel(conn, "tenant.a")
    pause_channel(conn, "tenant.a", paused=False)
    set_channel(conn, "tenant.*", Policy(max_concurrency=1))
    assert taken(conn) == ["tenant.a"]


# -- a limit over a family


def running_of(conn: Connection, *channels: str) -> int:
    return sum(running(conn, name) for name in channels)


def test_no_more_jobs_run_in_a_family_than_its_total(conn: Connection) -> None:
    set_channel(conn, "tenant.*", Policy(max_concurrency=2, max_concurrency_total=3))
    put_each(conn, "tenant.a", "tenant.b", "tenant.c", "other")
    jobs = take(conn, 100)
    assert [job.channel for job in jobs] == ["other"] * 3 + ["tenant.a", "tenant.b", "tenant.c"]
    assert taken(conn) == []
    complete(conn, [job for job in jobs if job.channel == "tenant.b"])
    assert len(taken(conn)) == 1


def test_a_full_family_does_not_hide_the_channels_behind_it(conn: Connection) -> None:
    set_channel(conn, "a.*", Policy(max_concurrency_total=1))
    put_each(conn, *(f"a.{n:03}" for n in range(300)), count=1)
    assert len(taken(conn, 1)) == 1
    put(conn, Job("z"))
    assert taken(conn, 5) == ["z"]


def test_a_total_counts_only_the_channels_that_it_applies_to(conn: Connection) -> None:
    set_channel(conn, "tenant.*", Policy(max_concurrency_total=2))
    set_channel(conn, "tenant.vip", Policy())
    set_channel(conn, "tenant.big.*", Policy(max_concurrency_total=3))
    put_each(conn, "tenant.big.a", "tenant.vip", count=5)
    assert len(taken(conn, 100)) == 8
    put_each(conn, "tenant.a", count=5)
    assert taken(conn) == ["tenant.a"] * 2


def test_jobs_that_run_when_a_total_is_set_are_counted(conn: Connection) -> None:
    put_each(conn, "tenant.a", "tenant.b")
    assert len(taken(conn, 4)) == 4
    set_channel(conn, "tenant.*", Policy(max_concurrency_total=5))
    assert len(taken(conn)) == 1


def test_a_killed_worker_leaves_no_slot_of_the_family_taken(conn: Connection) -> None:
    set_channel(conn, "tenant.*", Policy(max_concurrency_total=1))
    put_each(conn, "tenant.a", "tenant.b", count=1)
    (job,) = take(conn, 9)
    expire(conn, [job.id])
    assert len(taken(conn)) == 1
    complete(conn, [job])  # of the stale worker
    assert taken(conn) == []


@pytest.mark.parametrize("guard", [None, "family lock"])
def test_a_total_holds_against_a_take_that_is_not_committed(
    conn: Connection, session: OpenSession, guard: str | None
) -> None:
    """Two takers, each from a channel of its own, which lock different rows."""
    if guard:
        take_out(conn, guard)
    first, second = session(), session()
    set_channel(conn, "tenant.*", Policy(max_concurrency_total=1))
    put_each(conn, "tenant.a", "tenant.b")
    for name in ("tenant.a", "tenant.b"):  # they have their rows, and none waits for the other's
        complete(conn, take(conn, 1, pattern=name))
    with first.transaction():
        assert taken(first, pattern="tenant.a") == ["tenant.a"]
        taken(second, pattern="tenant.b")
    taken(second, pattern="tenant.b")
    assert (running_of(conn, "tenant.a", "tenant.b") > 1) is (guard is not None)


@pytest.mark.parametrize("guard", [None, "channel lock"])
def test_a_limit_of_a_family_holds_for_a_new_channel_that_two_take_from(
    conn: Connection, session: OpenSession, guard: str | None
) -> None:
    if guard:
        take_out(conn, guard)
    first, second = session(), session()
    set_channel(conn, "tenant.*", Policy(max_concurrency=1))
    put_each(conn, "tenant.a", "tenant.b")
    with first.transaction():
        # A row that is not committed makes the other one wait: it is there already.
        taken(conn, 1, pattern="tenant.b")
        complete(conn, take(conn, 0, pattern="tenant.a"))
        assert taken(first, pattern="tenant.a") == ["tenant.a"]
        taken(second, pattern="tenant.a")
    taken(second, pattern="tenant.a")
    assert (running(conn, "tenant.a") > 1) is (guard is not None)


def test_a_total_is_for_families(conn: Connection) -> None:
    with pytest.raises(InvalidPolicy, match="max_concurrency_total is for families"):
        set_channel(conn, "tenant", Policy(max_concurrency_total=1))
    with pytest.raises(InvalidPolicy, match="star is allowed at the end only"):
        set_channel(conn, "ten*ant", Policy(max_concurrency=1))
    assert policies(conn) == {}


def test_the_listing_shows_the_limits_that_apply_and_whose_they_are(conn: Connection) -> None:
    rate = Rate(10, per=60.0, burst=5)
    set_channel(conn, "tenant.*", Policy(2, max_concurrency_total=9, rate=rate))
    put_each(conn, "tenant.a", "tenant.b", "other")
    taken(conn, 1, pattern="tenant.a")
    found = {status.name: status for status in list_channels(conn, "milepost")}
    assert set(found) == {"other", "tenant.*", "tenant.a", "tenant.b"}
    for name in ("tenant.a", "tenant.b"):
        status = found[name]
        assert (status.family, status.max_concurrency, status.rate_count) == ("tenant.*", 2, 10)
        assert (status.rate_seconds, status.rate_burst) == (60.0, 5)
    assert found["tenant.*"].max_concurrency_total == 9
    assert (found["other"].family, found["other"].max_concurrency) == (None, None)


def test_the_rows_of_channels_are_there_before_their_jobs_run(conn: Connection) -> None:
    """What a limit over a family relies on."""
    set_channel(conn, "tenant.*", Policy(max_concurrency_total=9))
    put_each(conn, "tenant.a")
    assert rows(conn) == {"tenant.*"}
    taken(conn, 1)
    row = conn.execute("select family, is_policy from milepost.channels where name = 'tenant.a'")
    assert one(row.fetchone()) == ("tenant.*", False)
