"""What operators do with processors: list, pause, resume, reset, skip."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from psycopg.rows import class_row

from milepost import sql
from milepost.checkpoints import CheckpointKey, PostgresCheckpointStore
from milepost.db import translated
from milepost.errors import NothingToSkip, UnknownProcessor
from milepost.log import Selection, Start, horizon, read_batch, start_position
from milepost.records import Position, RecordedMessage

if TYPE_CHECKING:
    from milepost.db import Connection

COUNT_UP_TO = 100_000
SKIPPED = "skipped by an operator"


@dataclass(frozen=True, slots=True)
class ProcessorStatus:
    """How a processor fares. `state` is 'silent' where one that should report does not."""

    name: str
    version: int
    transaction_id: int | None
    position: int | None
    lag_messages: int
    is_lag_exact: bool
    lag_seconds: float
    state: str
    owner: str | None
    rate: float
    handled: int
    last_error: str | None
    last_error_at: datetime | None
    updated_at: datetime | None
    dead_letters: int

    @property
    def checkpoint(self) -> Position | None:
        if self.transaction_id is None or self.position is None:
            return None
        return Position(self.transaction_id, self.position)


def list_processors(
    conn: Connection, schema: str, name: str | None = None
) -> list[ProcessorStatus]:
    parameters = {"name": name, "count_up_to": COUNT_UP_TO}
    with translated(schema), conn.cursor(row_factory=class_row(ProcessorStatus)) as cursor:
        return cursor.execute(sql.query("processor_list", schema), parameters).fetchall()


def find(conn: Connection, schema: str, name: str, version: int | None = None) -> CheckpointKey:
    """The processor of that name; its newest version unless one is given."""
    known = list_processors(conn, schema)
    versions = [p.version for p in known if p.name == name]
    if not versions or (version is not None and version not in versions):
        wanted = name if version is None else f"{name} version {version}"
        raise UnknownProcessor(wanted, sorted({p.name for p in known}))
    return CheckpointKey(name, max(versions) if version is None else version)


def set_paused(conn: Connection, schema: str, key: CheckpointKey, *, is_paused: bool) -> None:
    """Takes effect within two seconds; the batch in hand is finished."""
    with translated(schema):
        conn.execute(sql.query("processor_pause", schema), _of(key) | {"is_paused": is_paused})


def reset(conn: Connection, schema: str, key: CheckpointKey, to: Start) -> Position:
    """Put the checkpoint anywhere, in the caller's transaction if there is one: a table that is
    emptied to be filled again must be emptied in the same one."""
    position = start_position(conn, to, schema)
    PostgresCheckpointStore(conn, schema).reset(key, position)
    return position


def skip(conn: Connection, schema: str, key: CheckpointKey) -> RecordedMessage:
    """Move past the next message, which goes to the dead letters in the same transaction."""
    with conn.transaction():
        message = _next_message(conn, schema, key)
        parameters = _of(key) | {
            "transaction_id": message.position.transaction_id,
            "position": message.position.position,
            "error": SKIPPED,
            "traceback": "",
            "attempts": 0,
        }
        with translated(schema):
            conn.execute(sql.query("dead_letter_put", schema), parameters)
        PostgresCheckpointStore(conn, schema).reset(key, message.position)
        return message


def _next_message(conn: Connection, schema: str, key: CheckpointKey) -> RecordedMessage:
    with translated(schema):
        row = conn.execute(sql.query("processor_reads", schema), _of(key)).fetchone()
    if row is not None:
        topics, types, transaction_id, position = row
        batch = read_batch(
            conn, Position(transaction_id, position), horizon(conn, schema),
            Selection(topics, types), batch_size=1, schema=schema,
        )  # fmt: skip
        if batch.messages:
            return batch.messages[0]
    raise NothingToSkip(key.processor)


def _of(key: CheckpointKey) -> dict[str, Any]:
    return {"processor": key.processor, "version": key.version}
