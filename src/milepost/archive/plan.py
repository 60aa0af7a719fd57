"""Which messages the next file has. Decided in SQL (plan_archive.sql), by the current policy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from milepost import db
from milepost.log.history import Location
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection


@dataclass(frozen=True, slots=True)
class FileSize:
    """How large files are. A file has at most `file_messages`, fewer if they have more than
    `file_bytes` before they are compressed. Fewer than `least_messages` wait for more, but not
    longer than `longest_wait`."""

    file_messages: int = 1_000_000
    file_bytes: int = 1 << 30
    least_messages: int = 50_000
    longest_wait: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        for name in ("file_messages", "file_bytes", "least_messages"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} is {value}: expected at least 1.")
        if self.longest_wait < timedelta(0):
            raise ValueError(f"longest_wait is {self.longest_wait}: expected at least 0.")


@dataclass(frozen=True, slots=True)
class Plan:
    """The messages after one position, up to and including another: `about` so many."""

    after: Position
    last: Position
    about: int
    location: Location


def request_archiving(conn: Connection, schema: str) -> Position | None:
    """Ask the archiver that works to write all that is old enough now; up to which position. None
    without an archive."""
    transaction_id, position = db.fetch_one(conn, schema, "archive_request")
    return None if position is None else Position(transaction_id, position)


def is_archived(conn: Connection, schema: str, up_to: Position) -> bool:
    parameters = {"transaction_id": up_to.transaction_id, "position": up_to.position}
    return bool(db.fetch_one(conn, schema, "archive_reaches", **parameters)[0])


def next_file(conn: Connection, schema: str, size: FileSize, *, is_last: bool) -> Plan | None:
    """None if nothing is to be archived now. `is_last`: nothing waits for more."""
    rows = db.fetch_all(
        conn,
        schema,
        "archive_plan",
        file_messages=size.file_messages,
        least_messages=min(size.least_messages, size.file_messages),
        longest_wait_seconds=size.longest_wait.total_seconds(),
        is_last=is_last,
    )
    if not rows:
        return None
    ((*places, about, location),) = rows
    return Plan(Position(*places[:2]), Position(*places[2:]), about, Location(location))
