"""Take jobs, batch by batch, in rotation over the channels of a pattern."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost import db, sql
from milepost.queue.verbs import take, take_from
from milepost.queue.worker.idle import Look, look
from milepost.queue.worker.rotation import BEGINNING, Heads, Rotation

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.records import TakenJob

# In hinted looks: ids that were drawn so long before may still be in flight. Of later jobs, so many
# are looked at.
IDS_IN_FLIGHT = 100
MOST_NEW_JOBS = 1_000


@dataclass(slots=True)
class Taker:
    """Remembers its place in the rotation, and where the next jobs are (see rotation.py). Without
    `is_durable` a crash of the server may forget a take, and its jobs are taken again: for
    connections that do nothing else. `is_ahead`: see take_from.sql."""

    pattern: str = "*"
    lock_seconds: float = 30.0
    schema: str = sql.DEFAULT_SCHEMA
    rotation: Rotation = field(default_factory=Rotation)
    is_durable: bool = True
    is_ahead: bool = False
    _last_id: int | None = None  # of jobs, when the hints were made

    def take(self, conn: Connection, max_count: int, *, with_duties: bool = True) -> list[TakenJob]:
        """Up to so many jobs. None at all may be a false answer, under contention and while looks
        are slow: ask again. Where the pattern is a name, the duties of each take (see queue_duties)
        may be left to the next one: then a worker that was woken has its job sooner."""
        if self.rotation.hinted_seconds(time.monotonic()):
            return self._take_hinted(conn, max_count, with_duties=with_duties)
        return self._take_in_full(conn, max_count, with_duties=with_duties)

    def look(self, conn: Connection) -> Look:
        """For a worker that found nothing: when to take again (see idle.py), which is when the next
        full look is due at the latest."""
        seconds, is_under_way = look(conn, self.schema)
        if hinted := self.rotation.hinted_seconds(time.monotonic()):
            seconds = hinted if seconds is None else min(seconds, hinted)
        return seconds, is_under_way

    def _take_hinted(
        self, conn: Connection, max_count: int, *, with_duties: bool
    ) -> list[TakenJob]:
        """From the channels that are known, or else from those of jobs that were put lately."""
        heads = self.rotation.heads(time.monotonic())
        jobs = self._take_from(conn, heads, max_count, with_duties=with_duties)
        if jobs or not self.pattern.endswith("*"):
            return jobs
        return self._take_from(conn, self._of_new_jobs(conn), max_count, with_duties=not heads)

    def _take_from(
        self, conn: Connection, heads: Heads, max_count: int, *, with_duties: bool
    ) -> list[TakenJob]:
        if not heads:
            return []
        started = time.monotonic()
        jobs = take_from(
            conn,
            heads,
            max_count,
            self.lock_seconds,
            schema=self.schema,
            is_durable=self.is_durable,
            is_ahead=self.is_ahead,
            with_duties=with_duties,
        )
        self.rotation.took_from(jobs, time.monotonic() - started)
        return jobs

    def _of_new_jobs(self, conn: Connection) -> Heads:
        """The channels of jobs that were put since the last look, as far as they are ready."""
        parameters = {
            "pattern": self.pattern,
            "after": self._last_id,
            "max_count": MOST_NEW_JOBS,
        }
        names, last_id = db.fetch_one(conn, self.schema, "queue_new_channels", **parameters)
        self._note_last(last_id)
        return dict.fromkeys(names, BEGINNING)

    def _take_in_full(
        self, conn: Connection, max_count: int, *, with_duties: bool
    ) -> list[TakenJob]:
        looked_at = None
        if self.rotation.is_slow:
            looked_at, last_id = db.fetch_one(conn, self.schema, "queue_moment")
            self._note_last(last_id)
        started = time.monotonic()
        jobs = take(
            conn,
            max_count,
            self.lock_seconds,
            self.pattern,
            self.rotation.after,
            schema=self.schema,
            is_durable=self.is_durable,
            max_channels=self.rotation.width,
            with_duties=with_duties,
            is_ahead=self.is_ahead,
        )
        now = time.monotonic()
        is_all = len(jobs) == max_count
        self.rotation.took(jobs, now - started, now, is_all=is_all, looked_at=looked_at)
        if not jobs and looked_at is not None and not self.pattern.endswith("*"):
            # What waits may be kept back by a limit or a lock.
            has_ready = db.fetch_one(conn, self.schema, "queue_has_ready", channel=self.pattern)[0]
            self.rotation.found_none(self.pattern, None if has_ready else looked_at)
        return jobs

    def _note_last(self, last_id: int | None) -> None:
        self._last_id = None if last_id is None else last_id - IDS_IN_FLIGHT
