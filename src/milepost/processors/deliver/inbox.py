"""The inbox of an at-least-once processor: which messages it has handled, by id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost import db
from milepost.checkpoints import columns

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.records import Position, RecordedMessage
    from milepost.runtime import Lease


@dataclass(frozen=True, slots=True)
class Inbox:
    """Narrows 'at least once' to what dies between an effect and its record here."""

    key: CheckpointKey
    lease: Lease
    schema: str
    keep_seconds: float

    def unknown(self, messages: list[RecordedMessage]) -> list[RecordedMessage]:
        """Those not handled yet; of several with one id, the first."""
        ids = [message.id for message in messages]
        with self.lease as conn:
            rows = db.fetch_all(conn, self.schema, "inbox_known", **self.key.parameters(), ids=ids)
        known = {row[0] for row in rows}
        fresh = {m.id: m for m in reversed(messages) if m.id not in known}
        return sorted(fresh.values(), key=lambda message: message.position)

    def record(self, messages: list[RecordedMessage]) -> None:
        with self.lease as conn:
            db.run(
                conn,
                self.schema,
                "inbox_record",
                **self.key.parameters(),
                ids=[message.id for message in messages],
                transaction_ids=[message.position.transaction_id for message in messages],
                positions=[message.position.position for message in messages],
            )

    def prune(self, checkpoint: Position) -> int:
        """Forget what is both behind the checkpoint, so never delivered again, and older than
        `keep_seconds`, in which a producer may have appended the same id twice."""
        parameters = self.key.parameters() | columns(checkpoint)
        with self.lease as conn:
            return db.run(
                conn, self.schema, "inbox_prune", **parameters, keep_seconds=self.keep_seconds
            )
