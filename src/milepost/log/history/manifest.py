"""Which file has which range of the log: the rows of `archive`. A listing never counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost import db, sql
from milepost.log.history.location import Location
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from milepost.db import Connection, Statement
    from milepost.log.selection import Selection


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """The messages after one position, up to and including another, in one file.

    `recorded_from`, `recorded_to`: None if the file has a time that Python cannot represent, or no
    messages. `topics`, `types`: None if they are too many to list."""

    after: Position
    last: Position
    location: str
    name: str
    messages: int
    bytes: int
    sha256: str
    recorded_from: datetime | None
    recorded_to: datetime | None
    topics: Sequence[str] | None
    types: Sequence[str] | None
    format_version: int
    has_content: bool
    epoch: int
    written_at: datetime | None = None

    def __post_init__(self) -> None:
        """Hashable: what was read of a file is kept by the file."""
        for name in ("topics", "types"):
            if isinstance(names := getattr(self, name), list):
                object.__setattr__(self, name, tuple(names))

    def holds(self, position: Position) -> bool:
        """Whether what follows a position is in this file."""
        return self.after <= position < self.last

    def may_have(self, selection: Selection) -> bool:
        """Whether any of its messages may be selected, by the topics and types that it lists."""
        wanted = ((self.topics, selection.topics), (self.types, selection.types))
        return all(
            listed is None or names is None or not set(listed).isdisjoint(names)
            for listed, names in wanted
        )

    @property
    def address(self) -> str:
        """For people."""
        return Location(self.location).file_address(self.name)


def file_after(conn: Connection, schema: str, position: Position) -> ArchivedFile | None:
    """The file that has the messages after a position, if it is archived."""
    with db.translated(schema, who=conn):
        rows = db.plain(conn).execute(*file_after_statement(schema, position)).fetchall()
    return archived_file(rows[0]) if rows else None


def file_after_statement(schema: str, position: Position) -> Statement:
    """The same, for a transaction of either colour."""
    parameters = {"transaction_id": position.transaction_id, "position": position.position}
    return sql.query("archive_file_after", schema), parameters


def files_between(
    conn: Connection, schema: str, after: Position, last: Position
) -> list[ArchivedFile]:
    """The files that have messages after one position and not after another, in order."""
    rows = db.fetch_all(
        conn,
        schema,
        "archive_files_between",
        after_transaction_id=after.transaction_id,
        after_position=after.position,
        last_transaction_id=last.transaction_id,
        last_position=last.position,
    )
    return [archived_file(row) for row in rows]


def files_since(conn: Connection, schema: str, time: datetime) -> list[ArchivedFile]:
    """The files that may have messages that were recorded at a time or later, in order."""
    rows = db.fetch_all(conn, schema, "archive_files_since", recorded_from=time)
    return [archived_file(row) for row in rows]


def archived_file(row: Sequence[Any]) -> ArchivedFile:
    """The only conversion from a row to a file."""
    return ArchivedFile(Position(*row[:2]), Position(*row[2:4]), *row[4:])
