"""Checkpoints in PostgreSQL, stored in the same transaction as the caller's effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost import db, sql
from milepost.checkpoints.store import Answer, Checkpoint, CheckpointKey, columns
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from milepost.db import Connection, Statement


@dataclass(frozen=True, slots=True)
class PostgresCheckpointStore:
    """On the caller's connection: in its transaction, if one is open."""

    conn: Connection
    schema: str = sql.DEFAULT_SCHEMA

    def load(self, key: CheckpointKey) -> Checkpoint | None:
        """The checkpoint, or None if nothing was stored yet."""
        rows = db.fetch_all(self.conn, self.schema, "checkpoint", **_of(key))
        if not rows:
            return None
        ((transaction_id, position, epoch, owner),) = rows
        return Checkpoint(Position(transaction_id, position), epoch, owner)

    def store(
        self,
        key: CheckpointKey,
        expected: Position | None,
        new: Position,
        *,
        epoch: int = 0,
        owner: str | None = None,
    ) -> Answer:
        """Move the checkpoint from the expected position to the new one, or not at all."""
        statement = store_statement(
            key, expected, new, schema=self.schema, epoch=epoch, owner=owner
        )
        with db.translated(self.schema, who=self.conn):
            return Answer(db.one(self.conn.execute(*statement).fetchone())[0])

    def first(self, key: CheckpointKey, start: Callable[[], Position], owner: str) -> Checkpoint:
        """The stored one, or `start` if there is none. It is stored immediately, so that 'end'
        means the end as of now, whenever the first message comes."""
        if (found := self.load(key)) is not None:
            return found
        position = start()
        self.store(key, None, position, owner=owner)
        # This instance's, or that of an instance that was quicker.
        return self.load(key) or Checkpoint(position)

    def reset(self, key: CheckpointKey, to: Position) -> None:
        """Set the checkpoint, whatever it was."""
        db.run(self.conn, self.schema, "reset_checkpoint", **_of(key), **columns(to))


def store_statement(
    key: CheckpointKey,
    expected: Position | None,
    new: Position,
    *,
    schema: str = sql.DEFAULT_SCHEMA,
    epoch: int = 0,
    owner: str | None = None,
) -> Statement:
    """The store as a statement, for a sync or async transaction. It returns one row with the
    answer."""
    parameters = _of(key) | {
        "expected_transaction_id": expected.transaction_id if expected else None,
        "expected_position": expected.position if expected else None,
        "new_transaction_id": new.transaction_id,
        "new_position": new.position,
        "epoch": epoch,
        "owner": owner,
    }
    return sql.query("store_checkpoint", schema), parameters


@dataclass(frozen=True, slots=True)
class Advance:
    """A move of a segment's checkpoint past messages that were filtered out."""

    key: CheckpointKey
    expected: Position
    new: Position
    epoch: int


def advance_all(
    conn: Connection, advances: Sequence[Advance], owner: str, schema: str = sql.DEFAULT_SCHEMA
) -> list[Answer | None]:
    """Several segments of one processor in one statement; None for one that is left as it is,
    because its checkpoint is locked."""
    rows = db.fetch_all(
        conn,
        schema,
        "store_checkpoints",
        **advances[0].key.parameters(),
        owner=owner,
        segments=[each.key.segment for each in advances],
        expected_transaction_ids=[each.expected.transaction_id for each in advances],
        expected_positions=[each.expected.position for each in advances],
        new_transaction_ids=[each.new.transaction_id for each in advances],
        new_positions=[each.new.position for each in advances],
        epochs=[each.epoch for each in advances],
    )
    answers = {segment: Answer(answer) for segment, answer in rows}
    return [answers.get(each.key.segment) for each in advances]


def _of(key: CheckpointKey) -> dict[str, Any]:
    return key.parameters() | {"segment": key.segment}
