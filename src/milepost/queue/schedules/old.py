"""Schedules of the previous release, which are jobs that never complete.

Its processes go on ticking them while they run. What is overdue for some seconds is ticked by none
of them any more, and is taken over. Drop this module in the next release.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
from psycopg.errors import LockNotAvailable

from milepost import db
from milepost.errors import MilepostError
from milepost.queue.schedules.schedule import Schedule, register
from milepost.queue.schedules.times import Cron, Repeat, Times
from milepost.records import Job

if TYPE_CHECKING:
    from milepost.db import Connection

CHANNEL = "milepost.schedules"
# A document that is none, a job that is refused, or a tick of it that is under way for long. The
# other schedules go on, and this one is tried again later.
_REFUSALS = (ValueError, KeyError, TypeError, AttributeError, MilepostError, LockNotAvailable)
log = logging.getLogger("milepost.queue")


def take_over(conn: Connection, schema: str, late_seconds: float) -> None:
    """Without an owner: no application of this release may have them in its code."""
    for name, content in db.fetch_all(conn, schema, "schedule_old", late_seconds=late_seconds):
        try:
            register(conn, from_document(name, orjson.loads(content)), schema)
        except _REFUSALS as error:
            log.warning("schedule=%s was not taken over from the previous release: %s", name, error)
        else:
            log.info("schedule=%s taken over from the previous release", name)


def from_document(name: str, document: dict[str, Any]) -> Schedule:
    return Schedule(name, _times(document), _job(document))


def _times(document: dict[str, Any]) -> Times:
    if "cron" in document:
        return Cron(document["cron"], document["timezone"])
    return Repeat(timedelta(seconds=document["every_seconds"]))


def _job(document: dict[str, Any]) -> Job:
    """Its content and state are encoded already. Bytes were stored as Latin-1, which keeps each."""
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
