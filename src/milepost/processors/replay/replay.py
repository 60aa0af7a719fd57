"""Replay: after a reset, messages that were handled before are delivered again, and say so.

How far each slice of the keys had come is noted by the reset itself, in the transaction that
rewinds. An instance loads the notes after the checkpoint: a reset raises its epoch, so that an
instance with old notes can store nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from milepost import db
from milepost.checkpoints import columns
from milepost.records import Position, RecordedMessage, Segment, key_hash

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection


@dataclass(frozen=True, slots=True)
class Replay:
    """Up to where the keys of each slice had been handled before the last reset."""

    marks: tuple[tuple[Segment, Position], ...] = ()

    def marked(self, messages: list[RecordedMessage]) -> list[RecordedMessage]:
        """The same messages; those that were handled before say `replaying`."""
        if not self.marks:
            return messages
        return [replace(m, replaying=True) if self.covers(m) else m for m in messages]

    def covers(self, message: RecordedMessage) -> bool:
        above = [segment for segment, until in self.marks if message.position <= until]
        if not above:
            return False
        hashed = key_hash(message.key)
        return any(hashed & segment.mask == segment.id for segment in above)


NO_REPLAY = Replay()


def load_replay(
    conn: Connection,
    schema: str,
    key: CheckpointKey,
    checkpoint: Position,
    segment: Segment = Segment.WHOLE,
) -> Replay:
    """What of the notes lies ahead of a checkpoint that was loaded before."""
    parameters = key.parameters() | columns(checkpoint)
    rows = db.fetch_all(conn, schema, "replays", **parameters, id=segment.id, mask=segment.mask)
    return Replay(tuple((Segment(id_, mask), Position(*at)) for id_, mask, *at in rows))
