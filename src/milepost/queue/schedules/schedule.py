"""A schedule of an application, and its registration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost import db
from milepost.encode import check_text
from milepost.errors import InvalidJob
from milepost.queue.encode import LONGEST_CHANNEL, encode
from milepost.queue.schedules.times import Cron, Repeat, Times, to_columns

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.records import Job


@dataclass(frozen=True, slots=True)
class Schedule:
    """What is put, and when."""

    name: str
    when: Times
    job: Job

    def __post_init__(self) -> None:
        check_text("the name of its schedule", self.name, LONGEST_CHANNEL, InvalidJob)
        if not isinstance(self.when, Repeat | Cron):
            raise TypeError(f"{self.when!r}: expected Repeat(...) or Cron(...).")
        encode(self.job)  # refuses now what each tick would refuse
        if self.job.after:
            raise InvalidJob(
                "after", "names jobs by their ids: every tick would wait for the same ones."
            )


def register(conn: Connection, schedule: Schedule, schema: str, owner: str | None = None) -> None:
    """Add it, or replace what was registered under its name. Its next tick stays, unless its times
    are others now. One statement, so that a process that freezes here does not hold the schedule.
    """
    now = db.fetch_one(conn, schema, "queue_time")[0]
    parameters = to_columns(schedule.when) | encode(schedule.job)._asdict()
    db.fetch_one(
        conn,
        schema,
        "schedule_register",
        name=schedule.name,
        begun_at=now,
        first_at=schedule.when.next(now, now),
        owner=owner,
        **parameters,
    )
