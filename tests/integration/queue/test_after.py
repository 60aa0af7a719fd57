"""Jobs that wait for other jobs: `after`, groups, and what happens when one of these does not
complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from milepost import Milepost, TakenJob, db
from milepost.db import Connection, one
from milepost.errors import ChannelFull, InvalidJob, UnknownPredecessor
from milepost.queue import Policy, admin, put, put_group, set_channel
from milepost.queue.health import check, repair
from milepost.queue.put import PUT_AT_MOST
from milepost.queue.verbs import take
from milepost.queue.worker.idle import is_drained, look
from milepost.records import Job, OnDead, Verdict
from tests.integration.queue.conftest import OpenSession
from tests.integration.queue.jobs import column, duties_due, expire, status, statuses
from tests.integration.queue.sabotage import take_out
from tests.integration.queue.verbs import (
    cancel,
    cancel_running,
    complete,
    defer,
    fail,
    give_back,
    retry,
)
from tests.integration.queue.worker.working import working
from tests.waiting import wait_until

ON_DEAD: list[OnDead] = ["wait", "cancel", "run"]
KEPT = timedelta(hours=1)


def tend(conn: Connection) -> int:
    """What every take does."""
    return int(one(conn.execute("select milepost.tend_followers()").fetchone())[0])


def settle(conn: Connection) -> None:
    while tend(conn):
        pass


def take_id(conn: Connection, id_: int) -> TakenJob:
    (job,) = take(conn, 1, pattern="c", with_duties=False)
    assert job.id == id_
    return job


def dependencies(conn: Connection) -> int:
    row = conn.execute(
        "select (select count(*) from milepost.job_dependencies) "
        "+ (select count(*) from milepost.job_endings)"
    )
    return int(one(row.fetchone())[0])


def follower(conn: Connection, *after: int, on_dead: OnDead = "wait", **more: Any) -> int:
    (id_,) = put(conn, Job("later", after=after, on_dead=on_dead, **more))
    return id_


@pytest.mark.parametrize("keep_for", [None, KEPT])
@pytest.mark.parametrize("is_linked", [True, False])
def test_a_job_runs_when_all_that_it_waits_for_have_completed(
    conn: Connection, is_linked: bool, keep_for: timedelta | None
) -> None:
    ids = put(conn, Job("c", keep_for=keep_for), Job("c"))
    last = follower(conn, *ids)
    if is_linked:
        settle(conn)
    assert status(conn, last) == "waiting"
    first, second = take(conn, 9)
    complete(conn, [first])
    settle(conn)
    assert status(conn, last) == "waiting"
    complete(conn, [second])
    duties_due(conn)
    assert [job.id for job in take(conn, 9)] == [last]
    assert dependencies(conn) == 0


def test_jobs_that_nobody_waits_for_leave_no_trace(conn: Connection) -> None:
    put(conn, *(Job("c") for _ in range(3)))
    complete(conn, take(conn, 9))
    assert dependencies(conn) == 0
    assert not statuses(conn)


def test_chains_and_diamonds_run_in_their_order(conn: Connection, mp: Milepost) -> None:
    done: list[str] = []

    @mp.worker("c")
    def work(job: TakenJob) -> None:
        done.append(job.content)

    with conn.transaction():
        (top,) = put(conn, Job("c", "top"))
        sides = put(conn, *(Job("c", f"side {n}", after=[top]) for n in range(3)))
        (bottom,) = put(conn, Job("c", "bottom", after=sides))
        put(conn, Job("c", "end", after=[bottom, top]))
    work.run("drained")
    assert done[0] == "top"
    assert sorted(done[1:4]) == ["side 0", "side 1", "side 2"]
    assert done[4:] == ["bottom", "end"]
    assert dependencies(conn) == 0


@pytest.mark.parametrize("count", [2, PUT_AT_MOST + 1])
def test_a_group_ends_with_its_final_job(conn: Connection, mp: Milepost, count: int) -> None:
    done: list[object] = []

    @mp.worker("*", concurrency=5)
    def work(job: TakenJob) -> None:
        done.append(job.content)

    with conn.transaction():
        ids, last = mp.put_group(conn, (Job("c", n) for n in range(count)), Job("d", "all"))
    assert len(ids) == count
    assert column(conn, last, "status") == "waiting"
    work.run("drained")
    assert (len(done), done[-1]) == (count + 1, "all")


def test_a_group_is_put_by_coroutines_and_whole_or_not_at_all(url: str, conn: Connection) -> None:
    async def put_all(then: Job) -> tuple[list[int], int]:
        async with await db.connect_async(url) as connection:
            return await put_group(connection, [Job("c"), Job("c")], then)

    ids, last = asyncio.run(put_all(Job("later")))
    assert [status(conn, id_) for id_ in (*ids, last)] == ["ready", "ready", "waiting"]
    with pytest.raises(UnknownPredecessor):
        asyncio.run(put_all(Job("later", after=[10**6])))
    assert statuses(conn) == {"ready": 2, "waiting": 1}


def test_an_empty_group_is_its_final_job(conn: Connection) -> None:
    ids, last = put_group(conn, [], Job("c"))
    assert (ids, status(conn, last)) == ([], "ready")


def test_jobs_that_have_completed_are_not_waited_for(conn: Connection) -> None:
    gone, kept = put(conn, Job("c"), Job("c", keep_for=KEPT))
    complete(conn, take(conn, 2))
    assert status(conn, follower(conn, gone, kept)) == "ready"
    later = follower(conn, gone, run_at=timedelta(hours=1))
    assert status(conn, later) == "scheduled"


@pytest.mark.parametrize("id_", [0, -1, 10**6])
def test_an_id_that_no_job_ever_had_is_refused(conn: Connection, id_: int) -> None:
    ids = put(conn, Job("c"))
    with pytest.raises(UnknownPredecessor, match=f"never been a job {id_}"):
        put(conn, Job("later", after=[*ids, id_]))
    with pytest.raises(UnknownPredecessor):
        put(conn, Job("c"), Job("later", after=[id_]))
    assert statuses(conn) == {"ready": 1}


@pytest.mark.parametrize("ends_with", ["commit", "rollback"])
def test_a_job_whose_put_is_in_flight_is_not_taken_for_gone(
    conn: Connection, session: OpenSession, ends_with: str
) -> None:
    business = session()
    business.execute("begin")
    (first,) = put(business, Job("c"))
    with pytest.raises(UnknownPredecessor, match=f"{first}.* has not ended"):
        follower(conn, first)
    with pytest.raises(UnknownPredecessor, match="has not ended"):
        put_group(conn, [Job("c")], Job("later", after=[first]))
    assert not statuses(conn)
    business.execute(ends_with.encode())
    last = follower(conn, first)
    assert status(conn, last) == ("waiting" if ends_with == "commit" else "ready")
    assert len(take(conn, 9, pattern="c")) == (1 if ends_with == "commit" else 0)


def test_transactions_that_name_each_others_jobs_are_refused_and_do_not_block_each_other(
    session: OpenSession,
) -> None:
    """In any order, and without a victim of the detection of deadlocks."""
    sessions = [session() for _ in range(3)]
    for each in sessions:
        each.execute("begin")
    ids = [put(each, Job("c"))[0] for each in sessions]

    def wait_for_others(number: int) -> str:
        each = sessions[number]
        with pytest.raises(UnknownPredecessor, match="has not ended"), each.transaction():
            follower(each, *ids)
        each.execute("commit")
        return each.info.transaction_status.name

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(wait_for_others, range(2))) == ["IDLE"] * 2
    last = follower(sessions[2], *ids)
    sessions[2].execute("commit")
    assert status(sessions[0], last) == "waiting"


def test_what_cannot_be_an_id_or_a_rule_is_refused(conn: Connection) -> None:
    with pytest.raises(InvalidJob, match="after"):
        put(conn, Job("c", after="12"))  # type: ignore[arg-type]
    with pytest.raises(InvalidJob, match="on_dead"):
        put(conn, Job("c", on_dead="hope"))  # type: ignore[arg-type]
    assert not statuses(conn)


def test_a_time_counts_when_the_others_are_done(conn: Connection) -> None:
    ids = put(conn, Job("c"))
    soon, late = follower(conn, *ids), follower(conn, *ids, run_at=timedelta(hours=1))
    put_at = column(conn, soon, "run_at")
    complete(conn, take(conn, 1))
    settle(conn)
    assert (status(conn, soon), status(conn, late)) == ("ready", "scheduled")
    assert column(conn, soon, "run_at") > put_at, "it was not due before"


# How the first job ends, and what becomes of the one that waits for it, by its rule.
WAITS, CANCELLED = "waiting", "cancelled"
ENDS = {
    "complete": ["ready", "ready", "ready"],
    "die": [WAITS, CANCELLED, "ready"],
    "die by expiry": [WAITS, CANCELLED, "ready"],
    "cancel": [CANCELLED, CANCELLED, "ready"],
    "cancel by its worker": [CANCELLED, CANCELLED, "ready"],
    "cancel while it runs, then fail": [CANCELLED, CANCELLED, "ready"],
    "cancel while it runs, then defer": [CANCELLED, CANCELLED, "ready"],
    "cancel while it runs, then give back": [CANCELLED, CANCELLED, "ready"],
    "purge": [CANCELLED, CANCELLED, "ready"],
    "die and be dropped": ["ready", CANCELLED, "ready"],
    "die and be cancelled": [CANCELLED, CANCELLED, "ready"],
    "die and be retried": ["ready", CANCELLED, "ready"],
    "fail": [WAITS, WAITS, WAITS],
}


def end(conn: Connection, id_: int, how: str) -> None:
    """As the name says: what happens first, and what happens after it."""
    first, _, then = how.partition(", then ")
    first, _, and_then = first.partition(" and be ")
    FIRST[first](conn, id_)
    settle(conn)
    for word in (then, and_then):
        if word:
            THEN[word](conn, id_)


def die_by_expiry(conn: Connection, id_: int) -> None:
    take_id(conn, id_)
    expire(conn, [id_])
    take(conn, 1, pattern="nothing")


def retry_and_complete(conn: Connection, id_: int) -> None:
    assert retry(conn, [id_]) == [Verdict.DONE]
    complete(conn, [take_id(conn, id_)])


def cancel_while_it_runs(conn: Connection, id_: int) -> None:
    TAKEN[id_] = take_id(conn, id_)
    assert cancel(conn, [id_]) == [Verdict.CANCELLED]


TAKEN: dict[int, TakenJob] = {}
FIRST: dict[str, Callable[[Connection, int], object]] = {
    "complete": lambda conn, id_: complete(conn, [take_id(conn, id_)]),
    "die": lambda conn, id_: fail(conn, [take_id(conn, id_)], finals=[True]),
    "die by expiry": die_by_expiry,
    "cancel": lambda conn, id_: cancel(conn, [id_]),
    "cancel by its worker": lambda conn, id_: cancel_running(conn, [take_id(conn, id_)]),
    "cancel while it runs": cancel_while_it_runs,
    "purge": lambda conn, _: admin.purge(conn, "milepost", "c", ["ready"]),
    "fail": lambda conn, id_: fail(conn, [take_id(conn, id_)], delays=[KEPT]),
}
THEN: dict[str, Callable[[Connection, int], object]] = {
    "fail": lambda conn, id_: fail(conn, [TAKEN[id_]]),
    "defer": lambda conn, id_: defer(conn, [TAKEN[id_]]),
    "give back": lambda conn, id_: give_back(conn, [TAKEN[id_]]),
    "dropped": lambda conn, id_: admin.drop(conn, "milepost", [id_]),
    "cancelled": lambda conn, id_: cancel(conn, [id_]),
    "retried": retry_and_complete,
}


@pytest.mark.parametrize("is_linked", [True, False])
@pytest.mark.parametrize("keep_for", [None, KEPT])
@pytest.mark.parametrize("how", ENDS)
def test_an_end_of_a_job_is_applied_by_the_rule_of_those_that_wait(
    conn: Connection, how: str, keep_for: timedelta | None, is_linked: bool
) -> None:
    """Also if nobody has told the job before its end that others wait for it."""
    attempts = 1 if how == "die by expiry" else 25
    (first,) = put(conn, Job("c", keep_for=keep_for, max_attempts=attempts))
    # In a paused channel, where a take changes nothing.
    set_channel(conn, "later", Policy(paused=True))
    later = [follower(conn, first, on_dead=rule, keep_for=KEPT) for rule in ON_DEAD]
    if is_linked:
        settle(conn)
    end(conn, first, how)
    settle(conn)
    assert [status(conn, id_) for id_ in later] == ENDS[how]
    assert check(conn) == []


@pytest.mark.parametrize("how", ["die", "cancel", "complete"])
@pytest.mark.parametrize("on_dead", ON_DEAD)
def test_a_job_that_has_ended_before_is_treated_in_the_same_way(
    conn: Connection, how: str, on_dead: OnDead
) -> None:
    (first,) = put(conn, Job("c", keep_for=KEPT))
    end(conn, first, how)
    later = follower(conn, first, on_dead=on_dead, keep_for=KEPT)
    settle(conn)
    assert status(conn, later) == ENDS[how][ON_DEAD.index(on_dead)]


def test_a_cancellation_goes_all_the_way_down(conn: Connection) -> None:
    (first,) = put(conn, Job("c"))
    second = follower(conn, first, on_dead="cancel")
    third = follower(conn, second)
    fourth = follower(conn, third, on_dead="run")
    settle(conn)
    fail(conn, take(conn, 1), finals=[True])
    settle(conn)
    assert [status(conn, id_) for id_ in (second, third, fourth)] == [None, None, "ready"]
    assert dependencies(conn) == 0


def test_a_waiting_job_can_be_cancelled_purged_and_shown(conn: Connection) -> None:
    first, second = put(conn, Job("c"), Job("c"))
    later, other = follower(conn, first, second), follower(conn, first)
    settle(conn)
    assert admin.find(conn, "milepost", later).after == [first, second]
    listed = admin.list_jobs(conn, "milepost", status="waiting")
    assert [job.id for job in listed] == [later, other]
    assert admin.summary(conn, "milepost").waiting == 2
    assert {c.name: c.waiting for c in admin.list_channels(conn, "milepost")}["later"] == 2
    assert cancel(conn, [later]) == [Verdict.DONE]
    assert admin.purge(conn, "milepost", "later", ["waiting"]) == 1
    complete(conn, take(conn, 9))
    settle(conn)
    assert dependencies(conn) == 0
    assert not statuses(conn)


def test_waiting_jobs_count_towards_the_size_of_a_channel(conn: Connection) -> None:
    set_channel(conn, "later", Policy(max_size=1))
    (first,) = put(conn, Job("c"))
    follower(conn, first)
    with pytest.raises(ChannelFull):
        follower(conn, first)


def test_a_channel_is_drained_while_its_jobs_wait_for_others(conn: Connection) -> None:
    (first,) = put(conn, Job("c"))
    follower(conn, first)
    settle(conn)
    assert is_drained(conn, "milepost", "later")
    complete(conn, take(conn, 1))
    assert not is_drained(conn, "milepost", "later"), "nobody has told it yet"


def test_plain_sql_puts_jobs_that_wait(conn: Connection) -> None:
    (first,) = put(conn, Job("c"))
    conn.execute("select milepost.put('later', '1', after => array[%s], on_dead => 'run')", [first])
    conn.execute(
        "select milepost.put_many(array['later', 'c'], array['1', '2'], "
        "afters => array[array[%s]::text, null])",
        [[first]],
    )
    assert statuses(conn) == {"ready": 2, "waiting": 2}


# -- races


def test_a_put_in_a_long_transaction_does_not_delay_what_its_job_waits_for(
    conn: Connection, session: OpenSession
) -> None:
    """And the end that it did not see is found when it has committed."""
    business = session()
    conn.execute("set lock_timeout = '2s'")
    (first,) = put(conn, Job("c"))
    with business.transaction():
        last = follower(business, first)
        assert complete(conn, take(conn, 1)) == [Verdict.DONE]
        settle(conn)
        assert status(business, last) == "waiting"
    settle(conn)
    assert status(conn, last) == "ready"


@pytest.mark.parametrize("guard", [None, "lock of what is waited for"])
def test_a_job_that_is_just_completing_is_not_waited_for_for_ever(
    conn: Connection, session: OpenSession, guard: str | None
) -> None:
    if guard:
        take_out(conn, guard)
    worker = session()
    (first,) = put(conn, Job("c"))
    last = follower(conn, first)
    (job,) = take_without_duties(worker)
    with worker.transaction():
        complete(worker, [job])
        if guard is None:
            settle(conn)
        else:
            # Without the lock it believes in a job that is about to be gone.
            with ThreadPoolExecutor(1) as pool:
                tending = pool.submit(tend, conn)
                wait_until(lambda: tending.done() or is_blocked(worker, conn))
                worker.execute("commit")
                tending.result(30)
                worker.execute("begin")
    settle(conn)
    assert (status(conn, last) == "ready") is (guard is None)


def test_a_worker_looks_again_while_nobody_could_link_a_job_or_tell_it_of_an_end(
    conn: Connection, session: OpenSession
) -> None:
    """The link is skipped while the completion is in flight, which does not know of it: so neither
    of the two notifies."""
    worker = session()
    (first,) = put(conn, Job("c"))
    last = follower(conn, first)
    (job,) = take_without_duties(worker)
    with worker.transaction():
        complete(worker, [job])
        settle(conn)
        assert look(conn, "milepost") == (None, True)
    assert look(conn, "milepost") == (None, True)
    settle(conn)
    assert status(conn, last) == "ready"
    assert look(conn, "milepost") == (None, False)


@pytest.mark.parametrize("ends_with", ["commit", "rollback"])
def test_a_job_whose_key_is_being_put_is_released_when_that_is_decided(
    conn: Connection, session: OpenSession, ends_with: str
) -> None:
    """Of what it waited for it is told only once: it must not wait for ever."""
    producer = session()
    (first,) = put(conn, Job("c"))
    producer.execute("begin")
    (holder,) = put(producer, Job("later", unique_key="k"))
    last = follower(conn, first, unique_key="k")
    complete(conn, take(conn, 1, pattern="c"))
    tend(conn)
    assert status(conn, last) == "waiting"
    assert look(conn, "milepost") == (None, True)
    producer.execute(ends_with.encode())
    settle(conn)
    if ends_with == "commit":
        complete(conn, take(conn, 1, pattern="later"))
        assert status(conn, holder) is None
        settle(conn)
    assert status(conn, last) == "ready"
    assert dependencies(conn) == 0


@pytest.mark.parametrize("guard", [None, "lock of the one that waits"])
def test_two_ends_in_two_sessions_release_the_job_that_waits_for_both(
    conn: Connection, session: OpenSession, guard: str | None
) -> None:
    if guard:
        take_out(conn, guard)
    one_session, other = session(), session()
    last = follower(conn, *put(conn, Job("c"), Job("c")))
    settle(conn)
    first, second = take(conn, 2)
    complete(conn, [first])
    with one_session.transaction():
        tend(one_session)
        complete(conn, [second])
        with other.transaction():
            tend(other)
            released = status(other, last)
    settle(conn)
    assert released == "waiting"
    assert (status(conn, last) == "ready") is (guard is None)


def test_completions_puts_and_takes_of_followers_at_once_lose_none(
    conn: Connection, mp: Milepost, session: OpenSession
) -> None:
    """Each round is a group whose members are done while it is being put."""
    done: list[object] = []

    @mp.worker("*", concurrency=8)
    def work(job: TakenJob) -> None:
        done.append(job.content)

    producers = [session() for _ in range(4)]

    def produce(producer: Connection) -> None:
        for number in range(25):
            first = put(producer, Job("c"), Job("c"))
            with producer.transaction():
                put(producer, Job("later", number, after=first))
                put(producer, Job("later", number, after=first[:1]))

    with working(work), ThreadPoolExecutor(4) as pool:
        list(pool.map(produce, producers))
        wait_until(lambda: len(done) == 4 * 25 * 4)
        wait_until(lambda: not statuses(conn))
    assert dependencies(conn) == 0


def test_no_hop_of_a_chain_waits_for_a_poll(conn: Connection, mp: Milepost) -> None:
    """Each job is put while the one before it runs, and ends while somebody links the two. The
    worker polls once an hour only."""
    done: list[int] = []

    @mp.worker("c", concurrency=2, poll_seconds=3600)
    def work(job: TakenJob) -> None:
        if job.content < 150:
            mp.put(conn, Job("c", job.content + 1, after=[job.id]))
        done.append(job.content)

    with working(work):
        for _ in range(5):
            done.clear()
            mp.put(conn, Job("c", 1))
            wait_until(lambda: len(done) == 150 and not statuses(conn))
            assert done == list(range(1, 151))


def is_blocked(conn: Connection, waiter: Connection) -> bool:
    row = conn.execute(
        "select cardinality(pg_blocking_pids(%s)) > 0", [waiter.info.backend_pid]
    ).fetchone()
    return bool(one(row)[0])


def take_without_duties(conn: Connection) -> list[TakenJob]:
    """So that nobody has told the job yet that another one waits for it."""
    return take(conn, 1, pattern="c", with_duties=False)


# -- the doctor


@pytest.mark.parametrize("damage", ["delete from milepost.jobs where channel = 'c'",
                                    "delete from milepost.job_dependencies"])  # fmt: skip
def test_the_doctor_finds_jobs_that_wait_for_nothing(conn: Connection, damage: str) -> None:
    (first,) = put(conn, Job("c"))
    last = follower(conn, first)
    settle(conn)
    assert check(conn) == []
    conn.execute(damage.encode())
    (fault,) = check(conn)
    assert (fault.kind, fault.number) == ("orphaned", 1)
    repair(conn)
    assert check(conn) == []
    assert status(conn, last) == "ready"
