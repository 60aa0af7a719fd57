"""An ordinary handler among self-checkpointing ones: the checkpoint moves with every batch.

The ordinary handler's work is done when its transaction commits, and the checkpoint with it. So the
others must have made the batch durable before: they handle it first and are asked, outside any
transaction; then come the store, the ordinary handlers, and the commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.processors.checkpointing import taken
from milepost.processors.segmented.self_checkpointing import SelfCheckpointingWork
from milepost.processors.segmented.work import SegmentWork
from milepost.records import RawMessage

if TYPE_CHECKING:
    from milepost.log import Batch
    from milepost.processors.segmented.hands import Hands


@dataclass(slots=True)
class AutoWork(SelfCheckpointingWork):
    def handle(self, batch: Batch, hands: Hands) -> None:
        """What the ordinary handlers retry or set aside, the others have behind them."""
        if batch.messages:
            # What cannot be decoded fails below, as `on_failure` says.
            readable = [m for m in batch.messages if not isinstance(m, RawMessage)]
            self.consume(readable, batch.reached, hands)
            self.covered(batch.reached, must_reach=batch.reached)
        SegmentWork.handle(self, batch, hands)

    def tend(self, hands: Hands) -> None:  # noqa: ARG002 - of the work's shape
        """Whatever is asked for was stored with the batch."""
        if self.trigger is not None:
            taken(self.trigger)

    def released(self, hands: Hands) -> None:  # noqa: ARG002
        """Nothing is stored: beyond the checkpoint lies at most what the ordinary handlers have
        not done."""
        self.final_reports()
