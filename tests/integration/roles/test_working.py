"""Producers of jobs, workers and schedules, each under a role that may do nothing else."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from milepost import Cancel, Defer, Job, Milepost, Repeat, TakenJob
from milepost.db import Connection
from milepost.errors import ChannelFull
from milepost.queue import rates
from milepost.queue.schedules import CHANNEL
from milepost.sql import LogOrder
from tests.integration.queue.working import working
from tests.roles import Roles
from tests.waiting import wait_until


@pytest.fixture
def order() -> LogOrder:
    """The queue does not know of the log's order."""
    return "append"


def test_a_producer_puts_in_every_way(roles: Roles, mp: Milepost, conn: Connection) -> None:
    mp.set_channel("small", max_size=1)
    producer = Milepost(roles.make("put"))
    with producer.connect() as own:
        (first,) = producer.put(own, Job("a", 1, unique_key="once", keep_for=timedelta(hours=1)))
        assert producer.put(own, Job("a", 2, unique_key="once")) == [first]
        producer.put(own, *(Job("b", n, run_at=timedelta(seconds=60)) for n in range(3)))
        producer.put(own, *(Job("c", n) for n in range(300)))
        producer.put(own, *(Job("d", n, priority=2, state={"s": 1}) for n in range(300)))
        producer.put(own, Job("small"))
        with pytest.raises(ChannelFull):
            producer.put(own, Job("small"))
    counts = conn.execute("select channel, count(*) from milepost.jobs group by 1 order by 1")
    assert counts.fetchall() == [("a", 1), ("b", 3), ("c", 300), ("d", 300), ("small", 1)]


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


def test_a_worker_beats_reports_its_rate_and_recovers_what_others_lost(
    roles: Roles, mp: Milepost, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "REPORT_SECONDS", 0.05)
    worker, gate = Milepost(roles.make("work")), threading.Event()

    @worker.worker("slow", lock=2.0)
    def work(job: TakenJob) -> None:
        if job.content == "wait":
            gate.wait(60)

    mp.put(conn, Job("slow", "lost"), Job("slow", "wait"))
    conn.execute("select milepost.take(1, interval '-1 second', 'slow')")
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
    rows = conn.execute("select unique_key from milepost.jobs where channel = %s", [CHANNEL])
    assert rows.fetchall() == [("often",)]
