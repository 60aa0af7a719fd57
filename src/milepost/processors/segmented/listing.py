"""What operators see of a processor's segments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from psycopg.rows import class_row

from milepost import sql
from milepost.db import translated
from milepost.records import Position, Segment

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection

COUNT_UP_TO = 100_000


@dataclass(frozen=True, slots=True)
class SegmentStatus:
    """`owner` is who has it claimed now, `wanted_by` the operator who asks for it."""

    id: int
    mask: int
    epoch: int
    owner: str | None
    wanted_by: str | None
    transaction_id: int
    position: int
    updated_at: datetime
    last_error: str | None
    last_error_at: datetime | None
    lag_messages: int
    lag_seconds: float

    @property
    def segment(self) -> Segment:
        return Segment(self.id, self.mask)

    @property
    def checkpoint(self) -> Position:
        return Position(self.transaction_id, self.position)


def list_segments(
    conn: Connection, schema: str, key: CheckpointKey, count_up_to: int = COUNT_UP_TO
) -> list[SegmentStatus]:
    """By id; none for a processor without segments."""
    parameters = {
        "processor": key.processor,
        "version": key.version,
        "count_up_to": count_up_to,
    }
    with translated(schema), conn.cursor(row_factory=class_row(SegmentStatus)) as cursor:
        return cursor.execute(sql.query("segments_list", schema), parameters).fetchall()
