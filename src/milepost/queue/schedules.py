"""Schedules: jobs that never complete, and put another job at every tick.

A tick puts its job and defers the schedule to its next tick in one transaction, fenced by the
attempt: exactly once, also after a crash and with several schedulers. All times are the server's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import floor
from threading import Event
from typing import TYPE_CHECKING, Any, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from milepost import db, sql
from milepost.db import one, translated
from milepost.queue.definition import Definition, WorkerOptions
from milepost.queue.encode import encode
from milepost.queue.outcome import Defer
from milepost.queue.put import put
from milepost.queue.worker import Worker
from milepost.records import Job
from milepost.retry import Retry

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.queue.runner import Until
    from milepost.records import TakenJob

CHANNEL = "milepost.schedules"
RETRY = Retry(limit=2**31, first_seconds=0.5, longest_seconds=60.0)


@dataclass(frozen=True, slots=True)
class Repeat:
    """Every so often, counted from when it was registered."""

    every: timedelta

    def __post_init__(self) -> None:
        if self.every <= timedelta(0):
            raise ValueError(f"every is {self.every}: expected more than nothing.")

    def next(self, begun: datetime, now: datetime) -> datetime:
        """The first tick after now; what was missed is past."""
        ticks = max(0, floor((now - begun) / self.every))
        return begun + (ticks + 1) * self.every

    def document(self) -> dict[str, Any]:
        return {"every_seconds": self.every.total_seconds()}


@dataclass(frozen=True, slots=True)
class Cron:
    """At the times of a cron expression, as a clock in the time zone shows them."""

    expression: str
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        try:
            CronSim(self.expression, datetime(2000, 1, 1, tzinfo=ZoneInfo(self.timezone)))
        except CronSimError as error:
            raise ValueError(f"{self.expression!r} is no cron expression: {error}.") from error
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"There is no time zone {self.timezone!r}.") from error

    def next(self, begun: datetime, now: datetime) -> datetime:  # noqa: ARG002 - as Repeat's
        return next(CronSim(self.expression, now.astimezone(ZoneInfo(self.timezone))))

    def document(self) -> dict[str, Any]:
        return {"cron": self.expression, "timezone": self.timezone}


When: TypeAlias = Repeat | Cron


@dataclass(frozen=True, slots=True)
class Schedule:
    """What is put, and when."""

    name: str
    when: When
    job: Job

    def __post_init__(self) -> None:
        encode(self.job)  # refuses now what it would refuse at every tick

    def document(self) -> dict[str, Any]:
        """What is stored: everything that a tick needs, so that any scheduler can do it. Bytes as
        Latin-1, which keeps every byte and leaves JSON readable."""
        row = encode(self.job)
        return self.when.document() | {
            "channel": row.channel,
            "content": row.content.decode("latin-1"),
            "run_at": row.run_at and row.run_at.isoformat(),
            "delay_seconds": row.delay and row.delay.total_seconds(),
            "priority": row.priority,
            "max_attempts": row.max_attempts,
            "unique_key": row.unique_key,
            "state": row.state and row.state.decode("latin-1"),
            "keep_seconds": row.keep_for and row.keep_for.total_seconds(),
        }


def when_of(document: dict[str, Any]) -> When:
    if "cron" in document:
        return Cron(document["cron"], document["timezone"])
    return Repeat(timedelta(seconds=document["every_seconds"]))


def job_of(document: dict[str, Any]) -> Job:
    """The job as it was given, its content and state encoded already."""
    run_at, delay = document["run_at"], document["delay_seconds"]
    state, keep = document["state"], document["keep_seconds"]
    return Job(
        document["channel"],
        document["content"].encode("latin-1"),
        run_at=datetime.fromisoformat(run_at) if run_at else delay and timedelta(seconds=delay),
        priority=document["priority"],
        max_attempts=document["max_attempts"],
        unique_key=document["unique_key"],
        state=None if state is None else state.encode("latin-1"),
        keep_for=None if keep is None else timedelta(seconds=keep),
    )


def register(conn: Connection, schedule: Schedule, schema: str) -> None:
    """Harmless when it is there. A changed one begins its rhythm anew."""
    with conn.transaction(), translated(schema):
        now = one(conn.execute(sql.query("queue_time", schema)).fetchone())[0]
        new = Job(
            CHANNEL,
            schedule.document(),
            run_at=schedule.when.next(now, now),
            max_attempts=2**31 - 1,
            unique_key=schedule.name,
            state=now.isoformat(),
        )
        row = encode(new)
        parameters = {
            "channel": CHANNEL, "name": schedule.name, "content": row.content,
            "run_at": row.run_at, "state": row.state,
        }  # fmt: skip
        conn.execute(sql.query("schedule_change", schema), parameters)
        put(conn, new, schema=schema)


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Runs schedules beside workers: registers those of this application, ticks all there are."""

    schedules: Sequence[Schedule]
    url: str = field(repr=False)
    schema: str

    @property
    def name(self) -> str:
        return CHANNEL

    def run(self, until: Until = "stopped", stop: Event | None = None) -> None:
        with db.connect(self.url) as conn, db.acting(conn, "work"):
            db.check_schema(conn, self.schema)
            for schedule in self.schedules:
                register(conn, schedule, self.schema)
        options = WorkerOptions(CHANNEL, concurrency=1, retry=RETRY)
        Worker(Definition(options, self.tick), self.url, self.schema).run(until, stop)

    def tick(self, job: TakenJob, tx: Connection) -> Defer:
        """Put once, however many ticks were missed, and wait for the next one."""
        document = job.content
        now = one(tx.execute(sql.query("queue_time", self.schema)).fetchone())[0]
        put(tx, job_of(document), schema=self.schema)
        begun = datetime.fromisoformat(job.state)
        return Defer(when_of(document).next(begun, now))
