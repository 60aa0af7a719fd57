"""Unique keys: a put that replaces the waiting job, and keys that stay taken after completion."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from milepost import Milepost, TakenJob
from milepost.db import Connection, one
from milepost.errors import InvalidJob
from milepost.queue import admin, put
from milepost.queue.put import PUT_AT_MOST
from milepost.queue.verbs import take
from milepost.records import Job, Verdict
from tests.integration.queue.conftest import OpenSession
from tests.integration.queue.jobs import column, duties_due, status, statuses
from tests.integration.queue.sabotage import take_out
from tests.integration.queue.verbs import cancel, complete, fail
from tests.integration.queue.worker.working import working
from tests.waiting import wait_until

HOUR = timedelta(hours=1)


def latest(content: object, **more: Any) -> Job:
    return Job("c", content, unique_key="k", replace=True, **more)


def settle(conn: Connection) -> None:
    while one(conn.execute("select milepost.tend_followers()").fetchone())[0]:
        pass


def is_blocked(conn: Connection, waiter: Connection) -> bool:
    row = conn.execute(
        "select cardinality(pg_blocking_pids(%s)) > 0", [waiter.info.backend_pid]
    ).fetchone()
    return bool(one(row)[0])


# -- replace


@pytest.mark.parametrize("run_at", [None, HOUR])
@pytest.mark.parametrize("count", [1, 3, PUT_AT_MOST + 1])
def test_the_job_that_has_not_begun_gets_all_that_is_new(
    conn: Connection, run_at: timedelta | None, count: int
) -> None:
    (first,) = put(conn, Job("c", "old", unique_key="k", run_at=run_at, state=1, keep_for=HOUR))
    new = latest("new", priority=-2, max_attempts=3, state={"s": 2})
    assert put(conn, *[new] * count) == [first] * count
    (job,) = take(conn, 9)
    assert (job.id, job.content, job.state) == (first, "new", {"s": 2})
    assert (job.priority, job.max_attempts, job.is_kept, job.failures) == (-2, 3, False, 0)


def test_without_a_job_that_has_the_key_one_is_put(conn: Connection) -> None:
    (first,) = put(conn, latest(1))
    complete(conn, take(conn, 1))
    assert put(conn, latest(2)) != [first]
    assert statuses(conn) == {"ready": 1}


def test_each_put_moves_the_time(conn: Connection) -> None:
    """Debounce."""
    (first,) = put(conn, latest(1, run_at=timedelta(minutes=5)))
    times = [column(conn, first, "run_at")]
    for number in (2, 3):
        assert put(conn, latest(number, run_at=timedelta(minutes=5))) == [first]
        times.append(column(conn, first, "run_at"))
    assert times == sorted(set(times))
    assert put(conn, latest(4)) == [first]
    assert [job.content for job in take(conn, 9)] == [4]


def test_a_failed_job_that_waits_for_its_next_attempt_is_replaced_with_all_its_attempts(
    conn: Connection,
) -> None:
    (first,) = put(conn, latest("bad", max_attempts=2))
    fail(conn, take(conn, 1), delays=[HOUR], errors=["it was bad"])
    assert put(conn, latest("good", max_attempts=2)) == [first]
    found = admin.find(conn, "milepost", first)
    assert (found.status, found.failures, found.last_error) == ("ready", 0, None)


@pytest.mark.parametrize("how", ["complete", "die", "cancel"])
def test_a_running_job_is_followed_by_what_was_put_last(conn: Connection, how: str) -> None:
    (first,) = put(conn, latest(1))
    (job,) = take(conn, 1)
    (second,) = put(conn, latest(2))
    assert put(conn, latest(3)) == [second]
    assert put(conn, Job("c", 4, unique_key="k")) == [second]
    assert (status(conn, first), status(conn, second)) == ("running", "waiting")
    settle(conn)
    match how:
        case "complete":
            complete(conn, [job])
        case "die":
            fail(conn, [job], finals=[True])
        case "cancel":
            cancel(conn, [first])
            fail(conn, [job])
    settle(conn)
    assert [(job.id, job.content) for job in take(conn, 9)] == [(second, 3)]


def test_a_running_job_that_is_tried_again_comes_before_what_was_put_last(conn: Connection) -> None:
    (first,) = put(conn, latest(1))
    fail_later = take(conn, 1)
    (second,) = put(conn, latest(2))
    fail(conn, fail_later)
    settle(conn)
    (again,) = take(conn, 9)
    assert (again.id, again.content) == (first, 1)
    complete(conn, [again])
    settle(conn)
    assert [job.id for job in take(conn, 9)] == [second]


def test_every_last_content_is_handled_while_jobs_run(conn: Connection, mp: Milepost) -> None:
    done: list[int] = []

    @mp.worker("c", concurrency=4)
    def work(job: TakenJob) -> None:
        done.append(job.content)

    with working(work):
        for number in range(200):
            put(conn, latest(number))
        wait_until(lambda: done and done[-1] == 199)
        wait_until(lambda: not statuses(conn))
    assert done == sorted(set(done)), "never two concurrently, never an older one after a newer one"


def test_what_is_being_replaced_is_not_taken_before_that_is_known(
    conn: Connection, session: OpenSession
) -> None:
    business = session()
    put(conn, latest("old"))
    with business.transaction(force_rollback=True):
        put(business, latest("new"))
        assert take(conn, 9) == []
    assert [job.content for job in take(conn, 9)] == ["old"]


def test_a_job_that_begins_while_it_is_being_replaced_is_followed(
    conn: Connection, session: OpenSession
) -> None:
    """The put waits for the take, and finds that it came too late."""
    taker, producer = session(), session()
    (first,) = put(conn, latest("old"))
    with ThreadPoolExecutor(1) as pool:
        with taker.transaction():
            (job,) = take(taker, 1)
            putting = pool.submit(put, producer, latest("new"))
            wait_until(lambda: is_blocked(conn, producer))
        (second,) = putting.result(30)
    assert second != first
    assert complete(conn, [job]) == [Verdict.DONE]
    settle(conn)
    assert [job.content for job in take(conn, 9)] == ["new"]


def test_a_put_with_the_key_in_a_long_transaction_does_not_make_takers_wait(
    conn: Connection, session: OpenSession
) -> None:
    """What waits for the running one is released when the other put is known to have failed."""
    business = session()
    put(conn, latest(1))
    (job,) = take(conn, 1)
    (second,) = put(conn, latest(2))
    settle(conn)
    complete(conn, [job])
    conn.execute("set lock_timeout = '2s'")
    with business.transaction(force_rollback=True):
        # Past put(), which would find the one that waits.
        business.execute(
            "insert into milepost.jobs (channel, content, unique_key) values ('c', '', 'k')"
        )
        settle(conn)
        assert status(conn, second) == "waiting"
    settle(conn)
    conn.execute("select milepost.repair_queue()")
    assert status(conn, second) == "ready"


def test_what_does_not_go_together_is_refused(conn: Connection) -> None:
    (first,) = put(conn, Job("c"))
    for job, field in (
        (Job("c", replace=True), "replace"),
        (Job("c", unique_for=HOUR), "unique_for"),
        (Job("c", unique_key="k", unique_for=timedelta(0)), "unique_for"),
        (Job("c", unique_key="k", unique_for=60), "unique_for"),  # type: ignore[arg-type]
        (Job("c", unique_key="k", replace=True, after=[first]), "replace"),
    ):
        with pytest.raises(InvalidJob) as refused:
            put(conn, job)
        assert refused.value.field == field
    for arguments in ("replace => true", "unique_for => '1 hour'",
                      "unique_key => 'k', replace => true, after => array[1]",
                      "after => array[1], on_dead => 'hope'"):  # fmt: skip
        with pytest.raises(psycopg.DatabaseError, match="Nothing was"):
            conn.execute(f"select milepost.put('c', '1', {arguments})".encode())
    assert statuses(conn) == {"ready": 1}


# -- a key that stays taken


def pass_time(conn: Connection, id_: int) -> None:
    """The period of the completed job is over."""
    conn.execute(
        "update milepost.jobs set finished_at = finished_at - unique_for where id = %s", [id_]
    )


@pytest.mark.parametrize("keep_for", [None, timedelta(minutes=1), 2 * HOUR])
def test_a_key_stays_taken_for_a_while_after_completion(
    conn: Connection, keep_for: timedelta | None
) -> None:
    (first,) = put(conn, Job("c", unique_key="k", unique_for=HOUR, keep_for=keep_for))
    complete(conn, take(conn, 1))
    for job in (Job("c", unique_key="k"), latest(2), Job("c", unique_key="k", unique_for=HOUR)):
        assert put(conn, job) == [first]
    kept = column(conn, first, "keep_for")
    assert kept == ("02:00:00" if keep_for == 2 * HOUR else "01:00:00")
    duties_due(conn)
    assert take(conn, 9) == []
    pass_time(conn, first)
    (second,) = put(conn, Job("c", unique_key="k"))
    assert second != first
    assert statuses(conn) == {"done": 1, "ready": 1}


@pytest.mark.parametrize("how", ["die", "cancel"])
def test_a_job_that_does_not_complete_gives_its_key_away(conn: Connection, how: str) -> None:
    (first,) = put(conn, Job("c", unique_key="k", unique_for=HOUR))
    if how == "die":
        fail(conn, take(conn, 1), finals=[True])
    else:
        cancel(conn, [first])
    assert put(conn, Job("c", unique_key="k")) != [first]


def test_puts_of_one_key_while_jobs_complete_make_one_job(
    conn: Connection, mp: Milepost, session: OpenSession
) -> None:
    """However quickly the job is done: between the look for the key and the insert, too."""
    done: list[int] = []

    @mp.worker("c", concurrency=4)
    def work(job: TakenJob) -> None:
        done.append(job.id)

    sessions = [session() for _ in range(4)]
    with working(work), ThreadPoolExecutor(4) as pool:
        for number in range(50):
            job = Job("c", unique_key=f"k{number}", unique_for=HOUR)
            answers = pool.map(lambda s, job=job: put(s, job), sessions)
            assert len({tuple(answer) for answer in answers}) == 1
        wait_until(lambda: statuses(conn) == {"done": 50})
    assert len(done) == len(set(done)) == 50


OLD_INDEX = """
drop index milepost.jobs_unique_key;
create unique index jobs_unique_key on milepost.jobs (channel, unique_key)
where unique_key is not null and status in ('ready', 'scheduled', 'running')
"""


@pytest.mark.parametrize("guard", [None, "key of completed jobs"])
def test_a_job_that_is_put_and_done_between_the_look_and_the_insert_has_its_key(
    conn: Connection, session: OpenSession, guard: str | None
) -> None:
    """A put looks for the key, then at the policy of the channel, and then inserts."""
    if guard:
        take_out(conn, guard)
        conn.execute(OLD_INDEX)
    quick, slow = session(), session()
    job = Job("c", unique_key="k", unique_for=HOUR)
    with ThreadPoolExecutor(1) as pool:
        with quick.transaction():
            quick.execute("lock table milepost.channels in access exclusive mode")
            putting = pool.submit(put, slow, job)
            wait_until(lambda: is_blocked(conn, slow))
            first = put(quick, job)
            complete(quick, take(quick, 1))
        assert (putting.result(30) == first) is (guard is None)


@pytest.mark.parametrize("is_committed", [True, False])
def test_two_puts_after_the_period_make_one_job(
    conn: Connection, session: OpenSession, is_committed: bool
) -> None:
    one_session, other = session(), session()
    (first,) = put(conn, Job("c", unique_key="k", unique_for=HOUR))
    complete(conn, take(conn, 1))
    pass_time(conn, first)
    with ThreadPoolExecutor(1) as pool:
        with one_session.transaction(force_rollback=not is_committed):
            second = put(one_session, Job("c", unique_key="k"))
            putting = pool.submit(put, other, Job("c", unique_key="k"))
            wait_until(lambda: is_blocked(conn, other))
        third = putting.result(30)
    assert (second == third) is is_committed
    assert statuses(conn) == {"done": 1, "ready": 1}


def test_what_follows_a_running_job_takes_its_key_over(conn: Connection) -> None:
    put(conn, latest(1, unique_for=HOUR))
    (job,) = take(conn, 1)
    (second,) = put(conn, latest(2, unique_for=HOUR))
    settle(conn)
    complete(conn, [job])
    settle(conn)
    assert status(conn, second) == "ready"
    assert put(conn, latest(3)) == [second]
