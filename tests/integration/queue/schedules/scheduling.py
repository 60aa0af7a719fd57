"""Looking at schedules, past their own functions, and letting time pass for them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, LiteralString

from psycopg import sql

from milepost import Job, Milepost, Repeat
from milepost.db import Connection, one
from milepost.queue.schedules import Schedule, Scheduler
from milepost.queue.schedules.scheduler import Pace
from milepost.runtime import Runtime

EVERY_HOUR = Repeat(timedelta(hours=1))
HOURLY = Schedule("hourly", EVERY_HOUR, Job("reports"))
QUICK = Pace(poll_seconds=0.1, beat_seconds=0.1, seen_seconds=0.0)


def put_jobs(conn: Connection, channel: str = "reports") -> int:
    row = conn.execute("select count(*) from milepost.jobs where channel = %s", [channel])
    return int(one(row.fetchone())[0])


def column(conn: Connection, column: LiteralString, name: str = "hourly") -> Any:
    """Of a schedule, or what is computed from it."""
    query = sql.SQL("select {} from milepost.schedules where name = %s")
    return one(conn.execute(query.format(sql.SQL(column)), [name]).fetchone())[0]


def next_at(conn: Connection, name: str = "hourly") -> datetime:
    found: datetime = column(conn, "next_at", name)
    return found


def is_anyone_waiting(conn: Connection) -> bool:
    """For a lock, in this database: other tests may have others on the same server."""
    row = conn.execute(
        "select count(*) from pg_stat_activity "
        "where datname = current_database() and wait_event_type = 'Lock'"
    )
    return bool(one(row.fetchone())[0])


def make_due(conn: Connection, ticks_missed: int = 0) -> None:
    """As if an hour had passed (and more, if no scheduler ran)."""
    conn.execute(
        "update milepost.schedules set next_at = next_at - (%(n)s + 1) * interval '1 hour', "
        "begun_at = begun_at - (%(n)s + 1) * interval '1 hour'",
        {"n": ticks_missed},
    )


def scheduler(mp: Milepost, url: str, *schedules: Schedule, pace: Pace | None = None) -> Scheduler:
    return Scheduler(schedules, Runtime(url, mp.schema), pace or Pace())
