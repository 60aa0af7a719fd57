"""A long channel with a max_size is not counted at every put, and is full exactly when it is."""

from __future__ import annotations

import pytest

from milepost.db import Connection, one
from milepost.errors import ChannelFull
from milepost.queue import Policy, put, set_channel
from milepost.queue.put import PUT_AT_MOST
from milepost.queue.verbs import take
from milepost.records import Job
from tests.integration.queue.jobs import duties_due
from tests.integration.queue.sabotage import take_out
from tests.integration.queue.verbs import complete, fail, retry

SIZE = 1_200


def fill(conn: Connection, count: int = 1_100) -> list[int]:
    set_channel(conn, "c", Policy(max_size=SIZE))
    half = count // 2  # not counted by a put that finds a thousand
    return [id_ for _ in range(2) for id_ in put(conn, *(Job("c", n) for n in range(half)))]


def put_until_full(conn: Connection) -> int:
    for number in range(SIZE + 1):
        try:
            put(conn, Job("c"))
        except ChannelFull:
            return number
    raise AssertionError("it was never full")


def unfinished(conn: Connection) -> int:
    row = conn.execute(
        "select count(*) from milepost.jobs where channel = 'c' and status <> 'dead'"
    )
    return int(one(row.fetchone())[0])


def counts(conn: Connection) -> int:
    return int(one(conn.execute("select count(*) from milepost.channel_sizes").fetchone())[0])


def test_it_is_counted_once_for_as_many_puts_as_there_is_room(conn: Connection) -> None:
    fill(conn)
    for _ in range(100):
        put(conn, Job("c"))
    assert counts(conn) == 1


def test_it_is_full_exactly_at_its_size(conn: Connection) -> None:
    fill(conn)
    assert put_until_full(conn) == 100
    jobs = take(conn, 7)
    complete(conn, jobs)
    assert put_until_full(conn) == 7
    assert unfinished(conn) == SIZE


def test_puts_into_other_channels_do_not_fill_it(conn: Connection) -> None:
    fill(conn)
    for _ in range(5):
        put(conn, Job("c"))
        put(conn, *(Job("other", n) for n in range(50)))
    assert put_until_full(conn) == 95


def test_many_jobs_are_refused_as_a_whole(conn: Connection) -> None:
    fill(conn)
    put(conn, Job("c"))
    for count in (100, PUT_AT_MOST + 1):  # by one call, and by several
        with pytest.raises(ChannelFull, match="holds 1101 jobs of at most 1200"):
            put(conn, *(Job("c", n) for n in range(count)))
    put(conn, *(Job("c", n) for n in range(99)))
    assert unfinished(conn) == SIZE


def test_what_the_transaction_has_put_itself_counts(conn: Connection) -> None:
    fill(conn)
    with conn.transaction(force_rollback=True):
        assert put_until_full(conn) == 100
    assert put_until_full(conn) == 100


@pytest.mark.parametrize("guard", [None, "dead in the bound"])
def test_dead_jobs_that_are_retried_count(conn: Connection, guard: str | None) -> None:
    if guard:
        take_out(conn, guard)
    fill(conn)
    jobs = take(conn, 60)
    fail(conn, jobs, finals=[True] * 60)
    put(conn, Job("c"))
    retry(conn, [job.id for job in jobs])
    put_until_full(conn)
    assert (unfinished(conn) > SIZE) is (guard is not None)


def test_takers_delete_counts_that_are_outdated(conn: Connection) -> None:
    fill(conn)
    for _ in range(3):
        put(conn, *(Job("other", n) for n in range(120)))
        put(conn, Job("c"))
    assert counts(conn) == 3
    conn.execute("update milepost.channel_sizes set counted_at = counted_at - interval '1 hour'")
    duties_due(conn)
    take(conn, 1)
    assert counts(conn) == 1
    assert put_until_full(conn) == 97
