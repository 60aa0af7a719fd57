"""Producers of jobs, workers and schedules, each under a role that may do nothing else."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from milepost import Cancel, Defer, Job, Milepost, Rate, Repeat, TakenJob
from milepost.db import Connection
from milepost.errors import ChannelFull, JobFailed
from milepost.runtime import Timing
from milepost.sql import LogOrder
from tests.integration.queue.worker.working import working
from tests.roles import Roles
from tests.waiting import wait_until


@pytest.fixture
def order() -> LogOrder:
    """The queue does not know of the log's order."""
    return "append"


def test_a_producer_puts_in_every_way(roles: Roles, mp: Milepost, conn: Connection) -> None:
    mp.set_channel("small", max_size=1)
    mp.set_channel("sized.*", max_size=5_000)
    producer = Milepost(roles.make("put"))
    with producer.connect() as own:
        (first,) = producer.put(own, Job("a", 1, unique_key="once", keep_for=timedelta(hours=1)))
        assert producer.put(own, Job("a", 2, unique_key="once")) == [first]
        producer.put(own, *(Job("b", n, run_at=timedelta(seconds=60)) for n in range(3)))
        producer.put(own, *(Job("c", n) for n in range(300)))
        producer.put(own, *(Job("d", n, priority=2, state={"s": 1}) for n in range(300)))
        assert producer.put(own, Job("a", 3, unique_key="once", replace=True)) == [first]
        again = Job("e", unique_key="again", unique_for=timedelta(hours=1))
        (later,) = producer.put(own, again)
        producer.put_group(own, [Job("f"), Job("f", after=[first, later])], Job("f"))
        producer.put(own, Job("small"))
        with pytest.raises(ChannelFull):
            producer.put(own, Job("small"))
        producer.put(own, *(Job("sized.a", n) for n in range(1_000)))
        for _ in range(2):  # with a count that is stored, and by that
            producer.put(own, Job("sized.a"))
    counts = conn.execute("select channel, count(*) from milepost.jobs group by 1 order by 1")
    found = [("a", 1), ("b", 3), ("c", 300), ("d", 300), ("e", 1), ("f", 3)]
    found += [("sized.a", 1_002), ("small", 1)]
    assert counts.fetchall() == found
    complete_all(conn, "e")
    conn.execute("update milepost.jobs set finished_at = now() - unique_for where channel = 'e'")
    with producer.connect() as own:
        assert producer.put(own, again) != [later]
        conn.execute("delete from milepost.jobs where id = %s", [first])
        producer.put(own, Job("g", after=[first]))  # gone: only an insert tells


def complete_all(conn: Connection, channel: str) -> None:
    conn.execute(
        "select milepost.complete(array_agg(id), array_agg(attempt)) "
        "from milepost.take(100, pattern => %s)",
        [channel],
    )


def test_a_worker_releases_jobs_that_wait_for_others(
    roles: Roles, mp: Milepost, conn: Connection
) -> None:
    worker = Milepost(roles.make("work"))
    mp.set_upkeep("*", ageing=timedelta(microseconds=1), keep_dead_for=timedelta(microseconds=1))
    calls: list[object] = []

    @worker.worker("work", retry={ValueError: None})
    def work(job: TakenJob) -> None:
        calls.append(job.content)
        if job.content == "fail":
            raise ValueError("a bad job")

    (bad,) = mp.put(conn, Job("work", "fail", priority=3))
    mp.put(conn, Job("work", "never", after=[bad], on_dead="cancel"))
    mp.put_group(conn, [Job("work", 1), Job("work", 2)], Job("work", "last", unique_key="k"))
    work.run("drained")
    assert sorted(map(str, calls)) == ["1", "2", "fail", "last"]

    def is_purged() -> bool:
        work.run("drained")
        return not conn.execute("select from milepost.jobs").fetchall()

    wait_until(is_purged)


def test_a_producer_waits_for_the_result_of_its_task(roles: Roles) -> None:
    producer, worker = Milepost(roles.make("put")), Milepost(roles.make("work"))
    for application in (producer, worker):

        @application.task(keep_for=timedelta(hours=1), max_attempts=1)
        def add(a: int) -> int:
            return 10 // a

        with producer.connect() as own:
            handle, broken = add.put(own, 5), add.put(own, 0)
    worker.workers["tasks"].run("drained")
    assert handle.wait() == producer.result(handle.id) == 2
    with pytest.raises(JobFailed, match="ZeroDivisionError"):
        producer.result(broken.id)


@pytest.mark.parametrize("is_listening", [True, False])
def test_a_worker_ends_jobs_in_every_way(
    roles: Roles, mp: Milepost, conn: Connection, is_listening: bool
) -> None:
    worker = Milepost(roles.make("work"))
    calls: list[object] = []

    @worker.worker("work", retry={ValueError: None}, listen=is_listening)
    def work(job: TakenJob) -> object:
        calls.append(job.content)
        match job.content:
            case "fail":
                raise ValueError("a bad job")
            case "defer" if job.attempt == 1:
                return Defer(timedelta(0), {"state": 1})
            case "cancel":
                return Cancel("enough")
        return {"result": 1}

    contents = ["fine", "fail", "defer", "cancel"]
    mp.put(conn, *(Job("work", each, keep_for=timedelta(hours=1)) for each in contents))
    work.run("drained")
    found = conn.execute("select status::text from milepost.jobs order by id").fetchall()
    assert [status for (status,) in found] == ["done", "dead", "done", "cancelled"]
    assert sorted(map(str, calls)) == ["cancel", "defer", "defer", "fail", "fine"]


def test_a_transactional_worker_writes_its_effects(
    roles: Roles, mp: Milepost, conn: Connection
) -> None:
    conn.execute("create table seen (n integer not null)")
    url = roles.make("work")
    roles.run("grant insert on table seen to {}", url)
    worker = Milepost(url)

    @worker.worker("family.*")
    def work(job: TakenJob, tx: Connection) -> None:
        tx.execute("insert into seen (n) values (%s)", [job.content])
        worker.put(tx, *([Job("family.second", job.content + 1)] if job.content < 2 else []))

    mp.put(conn, Job("family.first", 1))
    work.run("drained")
    assert conn.execute("select n from seen order by n").fetchall() == [(1,), (2,)]


def test_a_worker_keeps_the_limits_of_channels(
    roles: Roles, mp: Milepost, conn: Connection
) -> None:
    """Which it may not change; a release is noted, and the mark from which running jobs count."""
    mp.set_channel("one", max_concurrency=1, release_interval=timedelta(milliseconds=1))
    mp.put(conn, *(Job("one", n) for n in range(3)))
    conn.execute("select setval('milepost.jobs_taken_seq', 100000)")
    worker, seen = Milepost(roles.make("work")), []

    @worker.worker("one", concurrency=3)
    def work(job: TakenJob) -> None:
        seen.append(job.content)

    work.run("drained")
    assert seen == [0, 1, 2]
    row = conn.execute("select oldest_running > 0, max_concurrency from milepost.channels")
    assert row.fetchone() == (True, 1)


def test_a_worker_keeps_the_limits_of_families(
    roles: Roles, mp: Milepost, conn: Connection
) -> None:
    """The rows of new channels are added for it; it may not add any itself."""
    rate = Rate(1_000, burst=2)
    mp.set_channel("tenant.*", max_concurrency=1, max_concurrency_total=2, rate=rate)
    mp.put(conn, *(Job(f"tenant.{n % 3}", n) for n in range(9)))
    worker, seen = Milepost(roles.make("work")), []

    @worker.worker("tenant.*", concurrency=3)
    def work(job: TakenJob) -> None:
        seen.append(job.content)

    work.run("drained")
    assert sorted(seen) == list(range(9))
    rows = conn.execute("select name from milepost.channels order by name").fetchall()
    assert [name for (name,) in rows] == ["tenant.*", "tenant.0", "tenant.1", "tenant.2"]


def test_a_worker_beats_reports_its_rate_and_recovers_what_others_lost(
    roles: Roles, mp: Milepost, conn: Connection
) -> None:
    worker = Milepost(roles.make("work"), timing=Timing(report_seconds=0.05))
    gate = threading.Event()

    @worker.worker("slow", lock=2.0)
    def work(job: TakenJob) -> None:
        if job.content == "wait":
            gate.wait(60)

    mp.put(conn, Job("slow", "lost"), Job("slow", "wait"))
    conn.execute("select milepost.take(1, interval '1 microsecond', 'slow')")
    locked = "select locked_until from milepost.jobs where content = '\"wait\"'"
    with working(work):
        wait_until(lambda: (conn.execute(locked).fetchone() or (None,))[0] is not None)
        before = conn.execute(locked).fetchone()
        wait_until(lambda: conn.execute(locked).fetchone() != before)
        gate.set()
        wait_until(lambda: conn.execute("select from milepost.jobs").fetchone() is None)
        wait_until(lambda: conn.execute("select 1 from milepost.channel_rates").fetchone())


def test_a_scheduler_registers_changes_and_ticks(
    roles: Roles, mp: Milepost, conn: Connection
) -> None:
    url = roles.make("work")

    def tick(content: str) -> None:
        application = Milepost(url)
        application.schedule("often", Repeat(timedelta(milliseconds=50)), Job("ticks", content))
        (scheduler,) = application.members()
        ticked = "select 1 from milepost.jobs where channel = 'ticks' and content = %s"
        with working(scheduler):
            wait_until(lambda: conn.execute(ticked, [f'"{content}"'.encode()]).fetchone())

    tick("first")
    tick("second")
    assert conn.execute("select name from milepost.schedules").fetchall() == [("often",)]


def test_a_scheduler_notes_failures(roles: Roles, mp: Milepost, conn: Connection) -> None:
    mp.set_channel("full", max_size=1)
    mp.put(conn, Job("full"))
    application = Milepost(roles.make("work"))
    application.schedule("often", Repeat(timedelta(milliseconds=50)), Job("full"))
    with working(*application.members()):
        failing = "select from milepost.schedules where name = 'often' and failures > 0"
        wait_until(lambda: conn.execute(failing).fetchone() is not None)
