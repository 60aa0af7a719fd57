"""Messages that a processor gave up on: kept with their error, to be listed, retried, dropped."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from psycopg.rows import class_row

from milepost import sql
from milepost.db import one, translated
from milepost.log import decode_json, undecoded
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message, and why it is here."""

    id: int
    processor: str
    version: int
    transaction_id: int
    position: int
    message_id: UUID
    topic: str
    key: str | None
    type: str
    raw_data: bytes
    raw_metadata: bytes
    recorded_at: datetime | str  # a text where Python has no such time
    error: str
    traceback: str
    attempts: int
    failed_at: datetime
    retry_requested_at: datetime | None
    is_parked: bool
    is_replayed: bool

    @property
    def data(self) -> Any:
        """Decoded when it is asked for: it may be here because it cannot be."""
        return decode_json(self.raw_data)

    @property
    def metadata(self) -> Any:
        return decode_json(self.raw_metadata)

    @property
    def at(self) -> Position:
        return Position(self.transaction_id, self.position)


def list_dead_letters(
    conn: Connection,
    schema: str,
    processor: str | None = None,
    limit: int = 100,
    key: str | None = None,
) -> list[DeadLetter]:
    """The oldest first."""
    parameters = {"processor": processor, "limit": limit, "id": None, "key": key}
    return _found(conn, schema, parameters)


def dead_letter(conn: Connection, schema: str, id_: int) -> DeadLetter | None:
    found = _found(conn, schema, {"processor": None, "limit": 1, "id": id_, "key": None})
    return found[0] if found else None


def request_retry(conn: Connection, schema: str, ids: list[int]) -> int:
    """Ask the running processor to handle them once more; how many it will. One of a parked key
    means all of that key."""
    with translated(schema):
        row = conn.execute(sql.query("dead_letter_request", schema), {"ids": ids}).fetchone()
    return int(one(row)[0])


def drop(conn: Connection, schema: str, ids: list[int]) -> int:
    """Forget them; how many there were. A parked key of which none is left flows again."""
    with translated(schema):
        row = conn.execute(sql.query("dead_letter_drop", schema), {"ids": ids}).fetchone()
    return int(one(row)[0])


def _found(conn: Connection, schema: str, parameters: dict[str, Any]) -> list[DeadLetter]:
    with translated(schema), undecoded(conn, class_row(DeadLetter)) as cursor:
        return cursor.execute(sql.query("dead_letters", schema), parameters).fetchall()
