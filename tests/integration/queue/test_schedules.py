from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from milepost import Cron, Job, Milepost, Repeat, TakenJob
from milepost.db import Connection
from milepost.queue.schedules import CHANNEL, Schedule, Scheduler, register
from tests.integration.queue.working import PATIENCE_SECONDS, Working, expire_locks, working
from tests.waiting import wait_until

EVERY_HOUR = Repeat(timedelta(hours=1))


def put_jobs(conn: Connection) -> int:
    row = conn.execute(
        "select count(*) from milepost.jobs where channel <> %s", [CHANNEL]
    ).fetchone()
    assert row is not None
    return int(row[0])


def schedule_rows(conn: Connection) -> list[tuple[object, ...]]:
    return conn.execute(
        "select unique_key, status::text, run_at from milepost.jobs where channel = %s "
        "order by unique_key",
        [CHANNEL],
    ).fetchall()


def make_due(conn: Connection, ticks_missed: int = 0) -> None:
    """As if an hour had passed (and more, if the scheduler was away)."""
    conn.execute(
        "update milepost.jobs set run_at = run_at - (%s + 1) * interval '1 hour', "
        "state = convert_to(to_json((convert_from(state, 'utf8')::jsonb #>> '{}')::timestamptz "
        "- (%s + 1) * interval '1 hour')::text, 'utf8') where channel = %s",
        [ticks_missed, ticks_missed, CHANNEL],
    )


def scheduler(mp: Milepost, url: str, *schedules: Schedule) -> Scheduler:
    return Scheduler(schedules, url, mp.schema)


def test_a_schedule_puts_its_job_at_every_tick(mp: Milepost, url: str, conn: Connection) -> None:
    hourly = Schedule("hourly", EVERY_HOUR, Job("reports", {"kind": "hourly"}, priority=3))
    one = scheduler(mp, url, hourly)
    one.run("drained")
    assert put_jobs(conn) == 0
    for tick in range(1, 4):
        make_due(conn)
        one.run("drained")
        assert put_jobs(conn) == tick
    rows = conn.execute(
        "select content, priority from milepost.jobs where channel = 'reports'"
    ).fetchall()
    assert rows == [(b'{"kind":"hourly"}', 3)] * 3


def test_ticks_that_were_missed_are_put_once_and_the_rhythm_stays(
    mp: Milepost, url: str, conn: Connection
) -> None:
    one = scheduler(mp, url, Schedule("hourly", EVERY_HOUR, Job("reports")))
    one.run("drained")
    ((_, _, first),) = schedule_rows(conn)
    make_due(conn, ticks_missed=5)
    one.run("drained")
    assert put_jobs(conn) == 1
    ((_, status, next_),) = schedule_rows(conn)
    assert status == "scheduled"
    assert next_ == first


def test_several_schedulers_and_a_crash_put_each_tick_once(
    mp: Milepost, url: str, conn: Connection
) -> None:
    """One scheduler hangs in the middle of its tick until its lock is gone; three others live."""
    schedule = Schedule("hourly", EVERY_HOUR, Job("reports"))
    register(conn, schedule, mp.schema)
    make_due(conn)
    hanging, is_free = threading.Event(), threading.Event()

    def hang(job: TakenJob, tx: Connection) -> object:
        deferred = scheduler(mp, url, schedule).tick(job, tx)
        hanging.set()
        assert is_free.wait(PATIENCE_SECONDS)
        return deferred

    crashed = Working(mp.worker(CHANNEL, concurrency=1)(hang))
    assert hanging.wait(PATIENCE_SECONDS)
    expire_locks(conn)
    with working(*[scheduler(mp, url, schedule) for _ in range(3)]):
        wait_until(lambda: put_jobs(conn) == 1)
        is_free.set()
        crashed.stop.set()
        assert crashed.ends() is None
        wait_until(lambda: [row[1] for row in schedule_rows(conn)] == ["scheduled"])
    assert put_jobs(conn) == 1


def test_registering_again_changes_nothing_and_a_changed_one_replaces_it(
    mp: Milepost, url: str, conn: Connection
) -> None:
    register(conn, Schedule("s", EVERY_HOUR, Job("reports", 1)), mp.schema)
    before = schedule_rows(conn)
    register(conn, Schedule("s", EVERY_HOUR, Job("reports", 1)), mp.schema)
    assert schedule_rows(conn) == before
    register(conn, Schedule("s", Repeat(timedelta(days=1)), Job("reports", 2)), mp.schema)
    ((_, _, run_at),) = schedule_rows(conn)
    assert isinstance(run_at, datetime)
    assert run_at > datetime.now(UTC) + timedelta(hours=23)
    make_due(conn, ticks_missed=30)
    scheduler(mp, url).run("drained")
    rows = conn.execute("select content from milepost.jobs where channel = 'reports'").fetchall()
    assert rows == [(b"2",)]


def test_an_application_runs_its_schedules_beside_its_workers(
    mp: Milepost, conn: Connection
) -> None:
    seen: list[object] = []

    @mp.worker("reports")
    def report(job: TakenJob) -> None:
        seen.append(job.content)

    mp.schedule("quick", Repeat(timedelta(milliseconds=200)), Job("reports", "tick"))
    assert [member.name for member in mp.members()] == ["reports", CHANNEL]
    with working(*mp.members()):
        wait_until(lambda: len(seen) >= 3)
    assert set(seen) == {"tick"}
    with pytest.raises(ValueError, match="already"):
        mp.schedule("quick", EVERY_HOUR, Job("reports"))


def test_cron_follows_the_clock_of_its_time_zone() -> None:
    at_three = Cron("0 3 * * *", timezone="Europe/Berlin")
    winter = datetime(2030, 1, 15, 12, tzinfo=UTC)
    assert at_three.next(winter, winter) == datetime(2030, 1, 16, 2, tzinfo=UTC)
    summer = datetime(2030, 7, 15, 12, tzinfo=UTC)
    assert at_three.next(summer, summer) == datetime(2030, 7, 16, 1, tzinfo=UTC)


def test_what_is_no_schedule_is_refused() -> None:
    with pytest.raises(ValueError, match="cron expression"):
        Cron("61 * * * *")
    with pytest.raises(ValueError, match="time zone"):
        Cron("* * * * *", timezone="Nowhere/Land")
    with pytest.raises(ValueError, match="every"):
        Repeat(timedelta(0))
