"""What must always hold in the queue, asked of the database, and repaired.

That slots equal running jobs needs no check: running jobs are what is counted. That no channel
with due jobs and free slots is left out needs none either where jobs are ready, because takers
find channels through the ready jobs themselves. What remains: jobs that should have become ready
and did not, and the hints and sequences that takers rely on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from milepost import db, sql

if TYPE_CHECKING:
    from milepost.db import Connection

Kind: TypeAlias = Literal["overdue", "expired", "orphaned", "hint", "ids", "taken"]

# The duties of take() are done twice a second while any worker runs.
LATE_SECONDS = 60.0
_WHAT: dict[Kind, str] = {
    "overdue": "{number} scheduled jobs are due since up to {seconds:.0f} s and not ready: "
    "no worker runs, or none comes by to look",
    "expired": "{number} locks have expired since up to {seconds:.0f} s and nobody took the jobs "
    "back: no worker runs, or none comes by to look",
    "orphaned": "{number} jobs wait for jobs that are gone: these were deleted past Milepost",
    "hint": "{number} channels do not count all their running jobs, and may exceed their limit: "
    "the table or a sequence was changed, or restored in part",
    "ids": "the sequence of job ids is behind job {number}: jobs cannot be put. The table was "
    "restored without it",
    "taken": "the sequence of takes is behind {number}: limits may be exceeded. The table was "
    "restored without it",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong. `number`: of jobs or channels; for a sequence, what it is
    behind."""

    kind: Kind
    number: int
    seconds: float

    @property
    def what(self) -> str:
        return _WHAT[self.kind].format(number=self.number, seconds=self.seconds)


def check(
    conn: Connection, late_seconds: float = LATE_SECONDS, schema: str = sql.DEFAULT_SCHEMA
) -> list[Fault]:
    """What is wrong, most urgent first."""
    rows = db.fetch_all(conn, schema, "queue_faults", late_seconds=late_seconds)
    order = list(_WHAT)
    return sorted((Fault(*row) for row in rows), key=lambda fault: -order.index(fault.kind))


def repair(conn: Connection, schema: str = sql.DEFAULT_SCHEMA) -> None:
    """Repair all of it, in one transaction; harmless if nothing is wrong."""
    with conn.transaction():
        db.run(conn, schema, "queue_repair")
