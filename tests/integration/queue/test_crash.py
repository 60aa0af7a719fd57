"""Takes that do not wait for the disk, and a server that is killed right after them: it forgets
them, and nobody can end the attempt of another. On a server of its own, which writes nothing by
itself before it is killed: so a take is surely forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from threading import Event

import pytest

from milepost import Job, Milepost, TakenJob, db
from milepost.embedded import EmbeddedServer
from milepost.queue import Policy, put, set_channel
from milepost.queue.verbs import complete, take
from milepost.records import Verdict
from tests.crashing import crash_and_start, hold_writer, lazy_server, migrated_database
from tests.integration.queue.jobs import column, status
from tests.integration.queue.sabotage import take_out
from tests.integration.queue.test_verdicts import VERBS
from tests.integration.queue.worker.working import is_empty, working
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedServer]:
    with lazy_server() as server:
        yield server


@pytest.fixture
def own_url(own_server: EmbeddedServer) -> str:
    return migrated_database(own_server)


def taken_before_a_crash(
    server: EmbeddedServer, url: str, *, is_durable: bool = False, pattern: str = "c"
) -> TakenJob:
    """One job of the channel c, taken on a connection that the server then loses."""
    with db.connect(url) as conn:
        put(conn, Job("c"))
        writer = hold_writer(conn)
        try:
            (job,) = take(conn, 1, 3600.0, pattern, is_durable=is_durable)
        finally:
            crash_and_start(server, writer)
    return job


@pytest.mark.parametrize("pattern", ["c", "*"])
def test_a_crash_forgets_a_take_and_the_job_comes_again(
    own_server: EmbeddedServer, own_url: str, pattern: str
) -> None:
    first = taken_before_a_crash(own_server, own_url, pattern=pattern)
    with db.connect(own_url) as conn:
        assert (status(conn, first.id), column(conn, first.id, "attempt")) == ("ready", 0)
        assert [job.id for job in take(conn, 1)] == [first.id]


@pytest.mark.parametrize("is_durable", [False, True])
def test_who_has_a_forgotten_job_changes_nothing_of_the_same_attempt_of_another(
    own_server: EmbeddedServer, own_url: str, is_durable: bool
) -> None:
    first = taken_before_a_crash(own_server, own_url)
    with db.connect(own_url) as conn:
        assert [verb(conn, [first]) for verb in VERBS.values()] == [[Verdict.STALE]] * len(VERBS)
        (second,) = take(conn, 1, is_durable=is_durable)
        assert (second.id, second.attempt) == (first.id, first.attempt)
        before = column(conn, second.id, "locked_until")
        for verb in VERBS.values():
            assert verb(conn, [first]) == [Verdict.STALE]
        assert column(conn, second.id, "locked_until") == before
        # Both in one batch, as when one worker has taken it twice.
        assert complete(conn, [first, second]) == [Verdict.GONE, Verdict.DONE]


def test_without_the_token_the_first_would_end_the_attempt_of_the_second(
    own_server: EmbeddedServer, own_url: str
) -> None:
    first = taken_before_a_crash(own_server, own_url)
    with db.connect(own_url) as conn:
        take_out(conn, "token")
        take(conn, 1, is_durable=False)
        assert complete(conn, [first]) == [Verdict.DONE]


@pytest.mark.parametrize(
    "policy", [Policy(max_concurrency=1), Policy(release_interval=timedelta(hours=1))]
)
@pytest.mark.parametrize("guard", [None, "durable limits"])
def test_a_take_from_a_channel_with_limits_is_not_forgotten(
    own_server: EmbeddedServer, own_url: str, policy: Policy, guard: str | None
) -> None:
    with db.connect(own_url) as conn:
        if guard:
            take_out(conn, guard)
        set_channel(conn, "c", policy)
        conn.execute("update milepost.channels set next_release_at = '-infinity'")
        put(conn, Job("c"))
    first = taken_before_a_crash(own_server, own_url)
    with db.connect(own_url) as conn:
        assert bool(take(conn, 2)) is (guard is not None)
        expected = Verdict.DONE if guard is None else Verdict.STALE
        assert complete(conn, [first]) == [expected]


def test_a_limit_in_a_later_turn_of_a_take_counts_too(
    own_server: EmbeddedServer, own_url: str
) -> None:
    """The first turn finds only jobs that another session is taking."""
    with db.connect(own_url) as conn, closing(db.connect(own_url)) as other:
        set_channel(conn, "d", Policy(max_concurrency=1))
        put(conn, Job("c"), Job("d"))
        other.execute("begin")
        take(other, 1, pattern="c")
        (job,) = take(conn, 1, is_durable=False)
        crash_and_start(own_server)
    with db.connect(own_url) as conn:
        assert (job.channel, status(conn, job.id)) == ("d", "running")


def test_a_take_is_durable_unless_asked_otherwise(own_server: EmbeddedServer, own_url: str) -> None:
    first = taken_before_a_crash(own_server, own_url, is_durable=True)
    with db.connect(own_url) as conn:
        assert status(conn, first.id) == "running"
        assert complete(conn, [first]) == [Verdict.DONE]


def test_a_completion_makes_its_take_durable(own_server: EmbeddedServer, own_url: str) -> None:
    with db.connect(own_url) as conn:
        put(conn, Job("c"))
        assert complete(conn, take(conn, 1, is_durable=False)) == [Verdict.DONE]
        crash_and_start(own_server)
    with db.connect(own_url) as conn:
        assert is_empty(conn)


def test_a_worker_takes_with_a_token_and_works_on_after_a_crash(
    own_server: EmbeddedServer, own_url: str
) -> None:
    mp, begun, is_free = Milepost(own_url), Event(), Event()
    jobs: list[TakenJob] = []

    @mp.worker("c", lock=5.0, poll_seconds=0.1)
    def work(job: TakenJob) -> None:
        jobs.append(job)
        begun.set()
        assert is_free.wait(30)

    with mp.connect() as conn:
        put(conn, Job("c"))
    with working(work):
        assert begun.wait(30)
        crash_and_start(own_server)
        is_free.set()
        with mp.connect() as conn:
            wait_until(lambda: is_empty(conn))
    assert all(job.token is not None for job in jobs)
