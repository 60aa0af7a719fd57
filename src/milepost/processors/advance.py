"""Let a checkpoint pass what the filter took out, without a transaction at every poll."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost import sql
from milepost.db import translated
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection

ADVANCE_SECONDS = 1.0


@dataclass(slots=True)
class Advance:
    """Where the checkpoint may go when a look brought no message."""

    conn: Connection
    schema: str
    clock: Callable[[], float] = time.monotonic
    _looked_at: float | None = field(default=None, init=False)

    def is_due(self) -> bool:
        return self._looked_at is None or self.clock() - self._looked_at >= ADVANCE_SECONDS

    def target(self, checkpoint: Position, reached: Position) -> Position | None:
        """The newest row up to `reached`, if it is ahead. Not `reached` itself: a horizon in
        transaction order moves with every transaction, our own store included."""
        if reached <= checkpoint:
            return None
        self._looked_at = self.clock()
        parameters = {"transaction_id": reached.transaction_id, "position": reached.position}
        with translated(self.schema):
            row = self.conn.execute(sql.query("newest_row", self.schema), parameters).fetchone()
        newest = None if row is None else Position(*row)
        return newest if newest is not None and newest > checkpoint else None
