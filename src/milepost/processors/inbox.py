"""The inbox of an at-least-once processor: which messages it has handled, by id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost import sql
from milepost.db import translated

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection
    from milepost.records import Position, RecordedMessage


@dataclass(frozen=True, slots=True)
class Inbox:
    """Narrows 'at least once' to what dies between an effect and its record here."""

    key: CheckpointKey
    conn: Connection
    schema: str
    keep_seconds: float

    def unknown(self, messages: list[RecordedMessage]) -> list[RecordedMessage]:
        """Those not handled yet; of several with one id, the first."""
        parameters = self._of() | {"ids": [message.id for message in messages]}
        with translated(self.schema):
            rows = self.conn.execute(sql.query("inbox_known", self.schema), parameters).fetchall()
        known = {row[0] for row in rows}
        fresh = {m.id: m for m in reversed(messages) if m.id not in known}
        return sorted(fresh.values(), key=lambda message: message.position)

    def record(self, messages: list[RecordedMessage]) -> None:
        parameters = self._of() | {
            "ids": [message.id for message in messages],
            "transaction_ids": [message.position.transaction_id for message in messages],
            "positions": [message.position.position for message in messages],
        }
        with translated(self.schema):
            self.conn.execute(sql.query("inbox_record", self.schema), parameters)

    def prune(self, checkpoint: Position) -> int:
        """Forget what is both behind the checkpoint, so never delivered again, and older than
        `keep_seconds`, in which a producer may have appended the same id twice."""
        parameters = self._of() | {
            "transaction_id": checkpoint.transaction_id,
            "position": checkpoint.position,
            "keep_seconds": self.keep_seconds,
        }
        with translated(self.schema):
            return self.conn.execute(sql.query("inbox_prune", self.schema), parameters).rowcount

    def _of(self) -> dict[str, Any]:
        return {"processor": self.key.processor, "version": self.key.version}
