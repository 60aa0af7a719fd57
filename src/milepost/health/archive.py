"""Whether what is old reaches the archive. If it does not, nothing is removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost import db
from milepost.archive import Archiver
from milepost.health.check import Check, Limits, first_line
from milepost.log.diagnosis import Problem
from milepost.processors.admin import ProcessorStatus, list_processors
from milepost.records import Position
from milepost.words import duration

if TYPE_CHECKING:
    from milepost.db import Connection

_START = "start one: milepost archive run, or milepost run MODULE:NAME"


@dataclass(frozen=True, slots=True)
class ArchiveStatus:
    """`waiting_seconds`: for how long the first message waits that is to be archived; None if none
    does. `archiver`: None if none has ever run."""

    location: str
    archived_up_to: Position
    waiting_seconds: float | None
    archiver: ProcessorStatus | None

    @property
    def state(self) -> str:
        return "never run" if self.archiver is None else self.archiver.state

    @property
    def last_error(self) -> str:
        error = None if self.archiver is None else self.archiver.last_error
        return first_line(error or "no error was reported")


def look_at_archive(conn: Connection, schema: str) -> ArchiveStatus | None:
    """None if the policy names no archive."""
    rows = db.fetch_all(conn, schema, "health_archive")
    if not rows:
        return None
    ((location, transaction_id, position, waiting_seconds),) = rows
    found = list_processors(conn, schema, Archiver.name)
    archiver = found[0] if found else None
    return ArchiveStatus(location, Position(transaction_id, position), waiting_seconds, archiver)


def archive_check(status: ArchiveStatus | None, limits: Limits) -> Check:
    if status is None:
        return Check("archive", "no archive is configured")
    problems = () if Archiver.name in limits.ignored else tuple(_problems(status, limits))
    return Check("archive", describe_archive(status), problems)


def describe_archive(status: ArchiveStatus) -> str:
    waiting = status.waiting_seconds
    waits = "nothing waits" if waiting is None else f"messages wait for {duration(waiting)}"
    return f"{status.location}, up to {status.archived_up_to}; archiver {status.state}, {waits}"


def _problems(status: ArchiveStatus, limits: Limits) -> Iterator[Problem]:
    """The first cause only."""
    archiver, waiting = status.archiver, status.waiting_seconds
    if status.state == "failed":
        yield _problem(f"has failed: {status.last_error}", "fix the cause; it is restarted")
    elif status.state == "retrying":
        remedy = "make the place writable for it; it tries again by itself"
        yield _problem(f"cannot write: {status.last_error}", remedy)
    elif archiver is not None and _is_silent(archiver, limits):
        silent = duration(archiver.silent_seconds)
        yield _problem(f"has not reported for {silent}: its process is gone or hangs", _START)
    elif waiting is not None and waiting >= limits.archive_seconds:
        yield _behind(status.state, waiting)


def _is_silent(archiver: ProcessorStatus, limits: Limits) -> bool:
    return archiver.state == "silent" and archiver.silent_seconds >= limits.silent_seconds


def _behind(state: str, waiting: float) -> Problem:
    what = f"is {state} and {duration(waiting)} behind: what is not archived is not removed"
    if state == "paused":
        return _problem(what, f"milepost processors resume {Archiver.name}")
    if state in ("never run", "stopped"):
        return _problem(what.replace("is never", "has never"), _START)
    return _problem(
        what, f"check whether it makes progress: milepost processors show {Archiver.name}"
    )


def _problem(what: str, remedy: str) -> Problem:
    return Problem("archive", f"The archiver {what}", remedy)
