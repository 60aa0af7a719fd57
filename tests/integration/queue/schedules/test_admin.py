"""What operators see of schedules, and do with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from milepost import Cron, Job, Milepost
from milepost.db import Connection
from milepost.errors import UnknownSchedule
from milepost.queue.schedules import Schedule, admin, register
from tests.integration.queue.schedules.scheduling import (
    HOURLY,
    QUICK,
    column,
    make_due,
    next_at,
    put_jobs,
    scheduler,
)
from tests.integration.queue.worker.working import working
from tests.waiting import wait_until

UNSEEN = "update milepost.schedules set last_seen_at = clock_timestamp() - interval '3 minutes'"


def test_a_schedule_is_listed_with_its_next_ticks(mp: Milepost, conn: Connection) -> None:
    register(conn, HOURLY, mp.schema, "me")
    register(conn, Schedule("daily", Cron("@daily", "Asia/Tokyo"), Job("a")), mp.schema, "me")
    daily, hourly = admin.list_schedules(conn, mp.schema)
    assert (daily.name, daily.when, hourly.when) == ("daily", "@daily Asia/Tokyo", "every 1:00:00")
    assert (hourly.registered_by, hourly.channel, hourly.overdue_seconds) == ("me", "reports", 0.0)
    ticks = hourly.next_ticks(3)
    assert ticks == [hourly.next_at + n * timedelta(hours=1) for n in range(3)]
    assert [tick.astimezone(UTC).hour for tick in daily.next_ticks(2)] == [15, 15]


def test_a_paused_schedule_puts_nothing_and_what_it_missed_is_left_out(
    mp: Milepost, url: str, conn: Connection
) -> None:
    register(conn, HOURLY, mp.schema)
    expected = next_at(conn)
    admin.pause(conn, mp.schema, "hourly")
    make_due(conn, ticks_missed=2)
    scheduler(mp, url, HOURLY).run("drained")
    assert put_jobs(conn) == 0
    assert admin.resume(conn, mp.schema, "hourly") == expected
    scheduler(mp, url, HOURLY).run("drained")
    assert put_jobs(conn) == 0
    assert not column(conn, "is_paused")


def test_resuming_what_is_not_paused_does_not_skip_a_tick(mp: Milepost, conn: Connection) -> None:
    register(conn, HOURLY, mp.schema)
    make_due(conn)
    before = next_at(conn)
    assert admin.resume(conn, mp.schema, "hourly") == before


def test_running_now_puts_its_job_and_moves_nothing(mp: Milepost, conn: Connection) -> None:
    register(conn, HOURLY, mp.schema)
    before = next_at(conn)
    id_ = admin.run_now(conn, mp.schema, "hourly")
    assert conn.execute("select id, channel from milepost.jobs").fetchall() == [(id_, "reports")]
    assert next_at(conn) == before
    admin.pause(conn, mp.schema, "hourly")
    assert admin.run_now(conn, mp.schema, "hourly") > id_


def test_a_schedule_that_no_running_application_has_is_orphaned_and_ticks_on(
    mp: Milepost, url: str, conn: Connection
) -> None:
    register(conn, HOURLY, mp.schema, "an application")
    (found,) = admin.list_schedules(conn, mp.schema)
    assert not found.is_orphaned
    conn.execute(UNSEEN.encode())
    make_due(conn)
    scheduler(mp, url).run("drained")
    (found,) = admin.list_schedules(conn, mp.schema)
    assert found.is_orphaned
    assert put_jobs(conn) == 1


def test_a_running_application_marks_its_schedules(
    mp: Milepost, url: str, conn: Connection
) -> None:
    with working(scheduler(mp, url, HOURLY, pace=QUICK)):
        wait_until(lambda: admin.list_schedules(conn, mp.schema))
        conn.execute(UNSEEN.encode())
        wait_until(lambda: not admin.list_schedules(conn, mp.schema)[0].is_orphaned)


def test_what_is_removed_is_gone_until_it_is_registered_again(
    mp: Milepost, url: str, conn: Connection
) -> None:
    with working(scheduler(mp, url, HOURLY, pace=QUICK)):
        wait_until(lambda: admin.list_schedules(conn, mp.schema))
        admin.remove(conn, mp.schema, "hourly")
        conn.execute(UNSEEN.encode())
    assert admin.list_schedules(conn, mp.schema) == []
    scheduler(mp, url, HOURLY).run("drained")
    assert [each.name for each in admin.list_schedules(conn, mp.schema)] == ["hourly"]


def test_an_unknown_schedule_is_an_error_that_names_the_known_ones(
    mp: Milepost, conn: Connection
) -> None:
    register(conn, HOURLY, mp.schema)
    for change in (admin.pause, admin.resume, admin.run_now, admin.remove):
        with pytest.raises(UnknownSchedule, match=r"no schedule 'daily'\. There are: hourly"):
            change(conn, mp.schema, "daily")


def test_ticks_that_this_host_cannot_compute_are_left_out(mp: Milepost, conn: Connection) -> None:
    register(conn, Schedule("hourly", Cron("@hourly"), Job("a")), mp.schema)
    conn.execute("update milepost.schedules set timezone = 'Mars/Base'")
    (found,) = admin.list_schedules(conn, mp.schema)
    assert found.next_ticks(3) == [found.next_at]
    assert found.next_at > datetime.now(UTC)
