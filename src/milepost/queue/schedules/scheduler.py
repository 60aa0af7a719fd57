"""A scheduler: a member of a run that registers the schedules of its application, and ticks all.

It looks at the schedules, puts what is due, and waits until the next one is due. It holds nothing
meanwhile, so any number of schedulers may run, and each of them may end in any way.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event
from typing import TYPE_CHECKING, ClassVar

import psycopg

from milepost import db
from milepost.errors import MilepostError
from milepost.handlers import storable
from milepost.owner import owner_name
from milepost.queue.schedules.schedule import Schedule, register
from milepost.queue.schedules.times import Times, from_columns
from milepost.retry import Retry
from milepost.runtime import Stopping, is_server_lost

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.runtime import Lease, Runtime, Until
    from milepost.sql import Activity

RETRY = Retry(limit=2**31, first_seconds=0.5, longest_seconds=60.0)
BUSY_SECONDS = 0.05  # before it looks again, if another scheduler puts what is due
SHORTEST_SECONDS = 0.001
LONGEST_ERROR = 2_000
# A tick that is late by less is not missed, even if no scheduler ran: one takes over from another.
TAKE_OVER = timedelta(seconds=2)
# A tick that is late by more is missed, even if a scheduler ran: it was frozen, or too slow.
MISSED = timedelta(seconds=10)
log = logging.getLogger("milepost.queue")


@dataclass(frozen=True, slots=True)
class Pace:
    """How often it looks. Tests pass shorter times."""

    poll_seconds: float = 1.0  # for what is registered, resumed or changed meanwhile
    beat_seconds: float = 5.0  # between two looks whether a mark is due
    seen_seconds: float = 30.0  # between two marks that the application runs


@dataclass(frozen=True, slots=True)
class Scheduler:
    """`schedules` are those of this application. It ticks all that are registered."""

    schedules: Sequence[Schedule]
    runtime: Runtime
    pace: Pace = field(default_factory=Pace)
    name: ClassVar[str] = "milepost.schedules"
    activity: ClassVar[Activity] = "work"
    own_connections: ClassVar[int] = 1  # so that no handler can delay a tick

    def run(self, until: Until = "stopped", stop: Event | None = None) -> None:
        self.runtime.reserve([self])
        with db.acting(self.runtime.url, self.activity):
            Ticking(self, stop or Event()).run(until)

    def caught_up(self) -> bool:
        """A schedule is never over. What is due is ticked by any scheduler that runs."""
        return True


@dataclass(frozen=True, slots=True)
class Due:
    """A schedule that is due, or will be in `wait_seconds`. `now`: when this was looked up."""

    name: str
    every: timedelta | None
    cron: str | None
    timezone: str | None
    begun_at: datetime
    next_at: datetime
    failures: int
    now: datetime
    wait_seconds: float

    @property
    def times(self) -> Times:
        return from_columns(self.every, self.cron, self.timezone)

    def tick_after(self, since: datetime) -> datetime:
        """The tick that follows this one, for a scheduler that has run since then. If this one was
        missed, so were those between it and now: all of them are put once, together."""
        late = self.now - self.next_at
        is_missed = late > MISSED or (late > TAKE_OVER and self.next_at < since)
        return self.times.next(self.begun_at, self.now if is_missed else self.next_at)


class Ticking:
    """One run of a scheduler. Each statement is a transaction of its own and harmless twice."""

    def __init__(self, scheduler: Scheduler, stop: Event) -> None:
        self._schedules, self._pace = scheduler.schedules, scheduler.pace
        self._schema, self._stop = scheduler.runtime.schema, stop
        self._owner = owner_name()
        connections = scheduler.runtime.connections
        self._lease: Lease = connections.lease("schedules", stop, is_own=True)
        self._since: datetime | None = None  # it has looked without a break since then
        self._beat_at = 0.0

    def run(self, until: Until) -> None:
        """Until a stop is requested, else until everything is put that is due now. If the server
        cannot be reached at first, it fails immediately. Afterwards it waits for the server."""
        with closing(self._lease):
            with self._lease as conn:
                db.check_schema(conn, self._schema)
            try:
                self._lease.run(self._register)
                self._tick_all(until)
            except Stopping:
                log.info("scheduler stops without the server")

    def _register(self, conn: Connection) -> None:
        for schedule in self._schedules:
            register(conn, schedule, self._schema, self._owner)

    def _tick_all(self, until: Until) -> None:
        while not self._stop.is_set():
            seconds = self._lease.run(self._look, self._lost)
            if until != "stopped":
                return
            self._stop.wait(seconds)

    def _lost(self) -> None:
        """It does not run while it has no server."""
        self._since = None

    def _look(self, conn: Connection) -> float:
        """Puts what is due; in how many seconds to look again."""
        if self._since is None:
            self._since = db.fetch_one(conn, self._schema, "queue_time")[0]
        if time.monotonic() >= self._beat_at:
            self._beat(conn)
        within = self._pace.poll_seconds
        found = db.fetch_records(conn, self._schema, "schedule_due", Due, within_seconds=within)
        due = [schedule for schedule in found if schedule.wait_seconds <= 0]
        if due:
            is_put = [self._tick(conn, schedule, self._since) for schedule in due]
            return 0.0 if any(is_put) else BUSY_SECONDS
        soonest = min((schedule.wait_seconds for schedule in found), default=within)
        return max(SHORTEST_SECONDS, min(soonest, within))

    def _beat(self, conn: Connection) -> None:
        self._beat_at = time.monotonic() + self._pace.beat_seconds
        names, seconds = [each.name for each in self._schedules], self._pace.seen_seconds
        db.run(conn, self._schema, "schedule_seen", names=names, every_seconds=seconds)

    def _tick(self, conn: Connection, due: Due, since: datetime) -> bool:
        """Whether this scheduler has put it. What fails concerns this schedule alone."""
        try:
            next_at = due.tick_after(since)
            (id_,) = db.fetch_one(
                conn, self._schema, "schedule_tick",
                name=due.name, due_at=due.next_at, next_at=next_at,
            )  # fmt: skip
        except (psycopg.Error, MilepostError, ValueError, OverflowError) as error:
            if is_server_lost(error):
                raise
            self._failed(conn, due, error)
            return False
        log.debug("schedule=%s job=%s next=%s", due.name, id_, next_at)
        return id_ is not None

    def _failed(self, conn: Connection, due: Due, error: Exception) -> None:
        """Raises if this cannot be stored: then it is not about one schedule."""
        text = storable(f"{type(error).__name__}: {error}")[:LONGEST_ERROR]
        seconds = RETRY.delay_seconds(due.failures + 1, random.random())  # noqa: S311
        log.warning("schedule=%s failed, again in %.1f s: %s", due.name, seconds, text)
        db.run(
            conn,
            self._schema,
            "schedule_failed",
            name=due.name,
            due_at=due.next_at,
            failures=due.failures,
            error=text,
            delay_seconds=seconds,
        )
