"""What operators do with schedules: look, pause, resume, run now, remove."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from milepost import db
from milepost.errors import UnknownSchedule
from milepost.queue.schedules.times import from_columns

if TYPE_CHECKING:
    from milepost.db import Connection

# Four marks of a running application have been missed (Pace.seen_seconds).
ORPHANED_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """A schedule, without what it puts."""

    name: str
    every: timedelta | None
    cron: str | None
    timezone: str | None
    begun_at: datetime
    next_at: datetime
    channel: str
    is_paused: bool
    last_tick_at: datetime | None
    last_job_id: int | None
    failures: int
    retry_at: datetime | None
    last_error: str | None
    registered_by: str | None
    registered_at: datetime
    last_seen_at: datetime | None
    overdue_seconds: float  # 0: its tick is not due yet
    unseen_seconds: float | None

    @property
    def is_failing(self) -> bool:
        return self.failures > 0

    @property
    def is_orphaned(self) -> bool:
        """No application that has it in its code has run lately."""
        unseen = self.unseen_seconds
        return unseen is None or unseen > ORPHANED_SECONDS

    @property
    def when(self) -> str:
        return f"every {self.every}" if self.cron is None else f"{self.cron} {self.timezone}"

    def next_ticks(self, count: int) -> list[datetime]:
        """The next one, and those after it if this host can compute them."""
        ticks = [self.next_at]
        try:
            times = from_columns(self.every, self.cron, self.timezone)
            while len(ticks) < count:
                ticks.append(times.next(self.begun_at, ticks[-1]))
        except (ValueError, OverflowError):
            return ticks
        return ticks


def list_schedules(conn: Connection, schema: str, name: str | None = None) -> list[ScheduleStatus]:
    """In the order of their names."""
    return db.fetch_records(conn, schema, "schedules", ScheduleStatus, name=name)


def find(conn: Connection, schema: str, name: str) -> ScheduleStatus:
    for schedule in list_schedules(conn, schema, name):
        return schedule
    raise UnknownSchedule(name, [schedule.name for schedule in list_schedules(conn, schema)])


def pause(conn: Connection, schema: str, name: str) -> None:
    """It puts nothing until it is resumed."""
    found = find(conn, schema, name)
    _set_paused(conn, schema, found, found.next_at, is_paused=True)


def resume(conn: Connection, schema: str, name: str) -> datetime:
    """It goes on with the first tick after now, which is returned. Those before are left out."""
    found = find(conn, schema, name)
    now = db.fetch_one(conn, schema, "queue_time")[0]
    times = from_columns(found.every, found.cron, found.timezone)
    _set_paused(conn, schema, found, times.next(found.begun_at, now), is_paused=False)
    return find(conn, schema, name).next_at


def run_now(conn: Connection, schema: str, name: str) -> int:
    """Put its job, besides its ticks; the id of the job."""
    found = find(conn, schema, name)
    with db.acting(conn, "put"):
        rows = db.fetch_all(conn, schema, "schedule_run", name=found.name)
    for (id_,) in rows:
        return int(id_)
    raise UnknownSchedule(name, [])  # it was removed meanwhile


def remove(conn: Connection, schema: str, name: str) -> None:
    """An application that has it in its code registers it again when it starts."""
    (removed,) = db.fetch_one(conn, schema, "schedule_remove", name=name)
    if not removed:
        raise UnknownSchedule(name, [schedule.name for schedule in list_schedules(conn, schema)])


def _set_paused(
    conn: Connection, schema: str, found: ScheduleStatus, next_at: datetime, *, is_paused: bool
) -> None:
    parameters = {"name": found.name, "is_paused": is_paused, "next_at": next_at}
    db.run(conn, schema, "schedule_pause", **parameters)
