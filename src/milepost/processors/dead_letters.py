"""Messages that a processor gave up on: kept with their error, retried on request, dropped."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from psycopg.rows import class_row

from milepost import sql
from milepost.checkpoints import Answer
from milepost.db import translated
from milepost.log import recorded_message
from milepost.processors.conflict import Conflict, GuardFailed
from milepost.processors.failure import Failure
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.processors.definition import Definition
    from milepost.processors.effects import Effects
    from milepost.records import RecordedMessage

log = logging.getLogger("milepost.processors")


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
    data: Any
    metadata: Any
    recorded_at: datetime
    error: str
    traceback: str
    attempts: int
    failed_at: datetime
    retry_requested_at: datetime | None

    @property
    def at(self) -> Position:
        return Position(self.transaction_id, self.position)


def list_dead_letters(
    conn: Connection, schema: str, processor: str | None = None, limit: int = 100
) -> list[DeadLetter]:
    """The oldest first."""
    parameters = {"processor": processor, "limit": limit, "id": None}
    return _found(conn, schema, parameters)


def dead_letter(conn: Connection, schema: str, id_: int) -> DeadLetter | None:
    found = _found(conn, schema, {"processor": None, "limit": 1, "id": id_})
    return found[0] if found else None


def request_retry(conn: Connection, schema: str, ids: list[int]) -> int:
    """Ask the running processor to handle them once more; how many there were."""
    with translated(schema):
        return conn.execute(sql.query("dead_letter_request", schema), {"ids": ids}).rowcount


def drop(conn: Connection, schema: str, ids: list[int]) -> int:
    """Forget them; how many there were."""
    with translated(schema):
        return conn.execute(sql.query("dead_letter_drop", schema), {"ids": ids}).rowcount


def retry_requested(
    definition: Definition, conn: Connection, effects: Effects, schema: str
) -> None:
    """Handle what operators asked to be retried. Deleting the dead letter is the guard, in the
    transaction of the effects, so that two instances never both handle it."""
    parameters = {"processor": definition.options.name, "version": definition.options.version}
    with translated(schema):
        rows = conn.execute(sql.query("dead_letter_requested", schema), parameters).fetchall()
    for id_, *columns in rows:
        _retry(id_, recorded_message(*columns), conn, effects, schema)


def _retry(
    id_: int, message: RecordedMessage, conn: Connection, effects: Effects, schema: str
) -> None:
    try:
        answer = effects.apply([message], (sql.query("dead_letter_claim", schema), {"id": id_}))
    except Conflict:
        return  # another instance has it in hand
    except GuardFailed as failed:
        raise failed.error from failed
    except Exception as error:
        if effects.is_lost():
            raise
        parameters = Failure(message, error, 1).parameters() | {"id": id_}
        with translated(schema):
            conn.execute(sql.query("dead_letter_failed_again", schema), parameters)
        log.warning("dead_letter=%s position=%s retry failed: %s", id_, message.position, error)
        return
    if answer is Answer.STORED:
        log.info("dead_letter=%s position=%s retried", id_, message.position)


def _found(conn: Connection, schema: str, parameters: dict[str, Any]) -> list[DeadLetter]:
    with translated(schema), conn.cursor(row_factory=class_row(DeadLetter)) as cursor:
        return cursor.execute(sql.query("dead_letters", schema), parameters).fetchall()
