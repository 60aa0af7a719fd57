"""A taker whose looks are slow looks only from the places that it remembers. It finds everything
that is put meanwhile; the rest with its next full look."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from milepost.db import Connection
from milepost.queue import Policy, Taker, put, set_channel
from milepost.queue.worker.rotation import LAG_JOBS, Rotation
from milepost.records import Job, TakenJob
from tests.integration.queue.conftest import OpenSession
from tests.integration.queue.verbs import complete, defer, give_back

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def remembering(conn: Connection, pattern: str) -> Taker:
    """Every look is slow, and what it remembers is used for ever. It has found nothing yet."""
    taker = Taker(
        pattern, rotation=Rotation(slow_seconds=0.0, hinted_times=1e9, hinted_at_most=1e9)
    )
    for _ in range(2):
        assert taker.take(conn, 10) == []
    return taker


def test_a_channel_that_is_at_its_limit_is_not_empty(conn: Connection) -> None:
    """What waits in it is taken before what is put behind it."""
    set_channel(conn, "c", Policy(max_concurrency=1))
    first, second = put(conn, Job("c", run_at=LONG_AGO), Job("c", run_at=LONG_AGO))
    taker = Taker("c", rotation=Rotation(slow_seconds=0.0, hinted_times=1e9, hinted_at_most=1e9))
    taken = []
    for _ in range(6):
        (job,) = taker.take(conn, 10)
        assert taker.take(conn, 10) == []
        taken.append(job.id)
        defer(conn, [job])
    assert taken == [first, second] * 3


def look_in_full(conn: Connection, taker: Taker) -> list[TakenJob]:
    taker.rotation.hinted_times = 0.0
    taker.rotation = Rotation(slow_seconds=0.0, hinted_times=0.0, after=taker.rotation.after)
    return taker.take(conn, 10)


@pytest.mark.parametrize("pattern", ["c", "c*", "*"])
def test_a_job_that_is_put_is_found(conn: Connection, pattern: str) -> None:
    taker = remembering(conn, pattern)
    for _ in range(3):
        (id_,) = put(conn, Job("c"))
        assert [job.id for job in taker.take(conn, 10)] == [id_]
        assert taker.take(conn, 10) == []


def test_a_job_of_a_channel_that_is_new_is_found(conn: Connection) -> None:
    taker = remembering(conn, "t.*")
    put(conn, Job("t.a"))
    assert [job.channel for job in taker.take(conn, 10)] == ["t.a"]
    put(conn, Job("t.b"), Job("u"))
    assert [job.channel for job in taker.take(conn, 10)] == ["t.b"]


@pytest.mark.parametrize("pattern", ["c", "*"])
def test_a_more_urgent_job_is_found_and_comes_first(conn: Connection, pattern: str) -> None:
    taker = remembering(conn, pattern)
    put(conn, Job("c"))
    assert len(taker.take(conn, 1)) == 1
    put(conn, Job("c"), Job("c", priority=7), Job("c", priority=-7))
    assert [job.priority for job in taker.take(conn, 10)] == [-7, 0, 7]


def test_a_put_that_commits_late_is_found(conn: Connection, session: OpenSession) -> None:
    """Its job has an earlier time than those that were taken since, in any number below the lag."""
    taker, late = remembering(conn, "c"), session()
    put(conn, Job("c"))
    taker.take(conn, 10)
    with late.transaction():
        (id_,) = put(late, Job("c"))
        for _ in range(LAG_JOBS - 1):
            put(conn, Job("c"))
            assert len(taker.take(conn, 10)) == 1
    assert [job.id for job in taker.take(conn, 10)] == [id_]


def test_what_is_before_the_place_is_found_by_the_next_full_look(conn: Connection) -> None:
    taker = remembering(conn, "c")
    (hidden,) = put(conn, Job("c", run_at=LONG_AGO))
    assert taker.take(conn, 10) == []
    assert [job.id for job in look_in_full(conn, taker)] == [hidden]


def test_a_job_that_is_given_back_keeps_its_place_and_is_found(conn: Connection) -> None:
    taker = remembering(conn, "c")
    put(conn, Job("c"), Job("c"))
    first, second = taker.take(conn, 10)
    complete(conn, [second])
    give_back(conn, [first])
    assert [job.id for job in taker.take(conn, 10)] == [first.id]


def test_a_channel_at_its_limit_goes_on_where_its_slot_becomes_free(conn: Connection) -> None:
    set_channel(conn, "c", Policy(max_concurrency=1))
    taker = remembering(conn, "*")
    ids = put(conn, *(Job("c") for _ in range(3)))
    for id_ in ids:
        (job,) = taker.take(conn, 10)
        assert job.id == id_
        assert taker.take(conn, 10) == []
        complete(conn, [job])


def test_a_worker_waits_no_longer_than_until_the_next_full_look(conn: Connection) -> None:
    # A look takes a moment only: 1000 times as long could be over before it is asked.
    taker = Taker("c", rotation=Rotation(slow_seconds=0.0, hinted_times=1e9, hinted_at_most=1e9))
    assert taker.look(conn)[0] is None
    for _ in range(2):
        taker.take(conn, 10)
    seconds = taker.look(conn)[0]
    assert seconds is not None
    assert seconds > 0
