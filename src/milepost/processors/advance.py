"""Let a checkpoint pass what the filter took out, without a transaction at every poll."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.records import Position

ADVANCE_SECONDS = 1.0


@dataclass(slots=True)
class Advance:
    """Where the checkpoint may go when a look brought no message."""

    clock: Callable[[], float] = time.monotonic
    _looked_at: float | None = field(default=None, init=False)

    def is_due(self) -> bool:
        return self._looked_at is None or self.clock() - self._looked_at >= ADVANCE_SECONDS

    def target(self, checkpoint: Position, reached: Position) -> Position | None:
        """Where the reader has come to, if that is ahead."""
        if reached <= checkpoint:
            return None
        self._looked_at = self.clock()
        return reached
