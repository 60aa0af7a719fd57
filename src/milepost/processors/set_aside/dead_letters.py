"""Messages that a processor gave up on: kept with their error, to be listed, retried, dropped."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from psycopg.rows import class_row

from milepost import db, sql
from milepost.checkpoints import columns
from milepost.errors import RangeRemoved
from milepost.log import decode_json, raw_at, undecoded
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Generator

    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection, Statement
    from milepost.records import RawMessage

# The columns of a letter that are the message's.
STORED = ("message_id", "topic", "key", "type", "data", "metadata", "recorded_at")


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
    recorded_at: datetime | str  # a string where Python has no such time
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


def put(
    schema: str, key: CheckpointKey, position: Position, facts: dict[str, Any]
) -> Generator[Statement, Any, None]:
    """Set the message at a position aside. In steps, as parking.py."""
    parameters = key.parameters() | columns(position) | facts
    statement = sql.query("dead_letter_put", schema)
    if (yield statement, parameters | dict.fromkeys(STORED)):
        return
    found = yield from archived(schema, key, position)
    yield statement, parameters | stored(found)


def archived(
    schema: str, key: CheckpointKey, position: Position
) -> Generator[Statement, Any, RawMessage]:
    """The message at a position that the table does not have any more."""
    found = yield from raw_at(schema, position)
    if found is None:
        raise RangeRemoved(
            f"Processor {key.processor!r}: the message at {position} was to be set aside, and is "
            "neither in the log nor in its archive. Nothing was stored. Reset the processor to a "
            "position that the log has."
        )
    return found


def stored(message: RawMessage) -> dict[str, Any]:
    """Its columns, as they are stored: JSON and its time as text."""
    time = message.raw_recorded_at or message.recorded_at.isoformat()
    data, metadata = message.raw_data.decode(), message.raw_metadata.decode()
    of_message = (message.id, message.topic, message.key, message.type, data, metadata, time)
    return dict(zip(STORED, of_message, strict=True))


def list_dead_letters(
    conn: Connection,
    schema: str,
    processor: str | None = None,
    limit: int = 100,
    key: str | None = None,
    id_: int | None = None,
    *,
    search: str | None = None,
) -> list[DeadLetter]:
    """The oldest first. `search`: a part of the error or of the type."""
    parameters = {"processor": processor, "limit": limit, "id": id_, "key": key, "search": search}
    with db.translated(schema), undecoded(conn, class_row(DeadLetter)) as cursor:
        return cursor.execute(sql.query("dead_letters", schema), parameters).fetchall()


def dead_letter(conn: Connection, schema: str, id_: int) -> DeadLetter | None:
    found = list_dead_letters(conn, schema, limit=1, id_=id_)
    return found[0] if found else None


def request_retry(conn: Connection, schema: str, ids: list[int]) -> int:
    """Ask the running processor to handle them once more; how many it will. One of a parked key
    means all of that key."""
    return int(db.fetch_one(conn, schema, "dead_letter_request", ids=ids)[0])


def drop(conn: Connection, schema: str, ids: list[int]) -> int:
    """Forget them; how many there were. A parked key of which none is left flows again."""
    return int(db.fetch_one(conn, schema, "dead_letter_drop", ids=ids)[0])
