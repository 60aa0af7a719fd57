"""Checkpoints in PostgreSQL, stored by a statement in the transaction of the caller's effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost import sql
from milepost.checkpoints.store import Answer, Checkpoint, CheckpointKey
from milepost.db import Statement, one, translated
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection


@dataclass(frozen=True, slots=True)
class PostgresCheckpointStore:
    """On a connection of the caller's: inside its transaction if one is open."""

    conn: Connection
    schema: str = sql.DEFAULT_SCHEMA

    def load(self, key: CheckpointKey) -> Checkpoint | None:
        with translated(self.schema):
            row = self.conn.execute(sql.query("checkpoint", self.schema), _of(key)).fetchone()
        if row is None:
            return None
        transaction_id, position, epoch, owner = row
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
        statement = store_statement(
            key, expected, new, schema=self.schema, epoch=epoch, owner=owner
        )
        with translated(self.schema, who=self.conn):
            row = one(self.conn.execute(*statement).fetchone())
        return Answer(row[0])

    def reset(self, key: CheckpointKey, to: Position) -> None:
        parameters = _of(key) | {"transaction_id": to.transaction_id, "position": to.position}
        with translated(self.schema, who=self.conn):
            self.conn.execute(sql.query("reset_checkpoint", self.schema), parameters)


def store_statement(
    key: CheckpointKey,
    expected: Position | None,
    new: Position,
    *,
    schema: str = sql.DEFAULT_SCHEMA,
    epoch: int = 0,
    owner: str | None = None,
) -> Statement:
    """The store as a statement, for a transaction of whatever colour. Its one row holds the
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


def _of(key: CheckpointKey) -> dict[str, Any]:
    return {"processor": key.processor, "version": key.version, "segment": key.segment}
