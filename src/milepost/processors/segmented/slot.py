"""A claimed segment within an instance: what waits for it, and what is to be done next."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from milepost.log import Batch

if TYPE_CHECKING:
    from milepost.processors.segmented.claims import Claim
    from milepost.processors.segmented.work import SegmentWork
    from milepost.records import Position, RecordedMessage

ADVANCE_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class Slot:
    """Read and changed with the board's lock held, but for `work`, which belongs to the one thread
    that has the slot in hand."""

    claim: Claim
    work: SegmentWork
    deadline: float  # until when it is surely ours, by the monotonic clock of this process
    reached: Position  # everything up to here was seen: it is handled, or waits in `messages`
    passed: Position  # up to here it was handed to the work
    messages: deque[RecordedMessage] = field(default_factory=deque)
    advanced_at: float = 0.0
    is_attached: bool = False  # it gets its messages from the feed; else it reads its own
    is_in_hand: bool = False
    is_begun: bool = False
    is_leaving: bool = False
    is_lost: bool = False
    is_woken: bool = False  # its work asked to be looked at
    is_flushing: bool = False

    @property
    def id(self) -> int:
        return self.claim.segment.id

    @property
    def is_hungry(self) -> bool:
        return not self.messages and not self.is_in_hand

    def is_urgent(self, now: float) -> bool:
        """Whether it is to go, or to begin."""
        if self.deadline < now:
            self.is_lost = True
        return self.is_lost or self.is_leaving or not self.is_begun

    def is_ready(self, feed: Position, now: float) -> bool:
        """Whether it has something to do, with the feed at this position."""
        if self.messages or self.is_woken:
            return True
        if not self.is_attached and self.reached < feed:
            return True
        return self.reached > self.passed and self.is_advance_due(now)

    def is_advance_due(self, now: float) -> bool:
        """Whether the checkpoint may pass what was filtered out: not at every look."""
        return self.is_flushing or now - self.advanced_at >= ADVANCE_SECONDS

    def next_batch(self, batch_size: int) -> Batch:
        """What waits, in batches of the handler's size; an empty one if nothing does."""
        is_full = len(self.messages) > batch_size
        if not is_full:
            batch = Batch(list(self.messages), self.reached, is_full=False, is_held=False)
            self.messages.clear()
            return batch
        messages = list(islice(self.messages, batch_size))
        for _ in messages:
            self.messages.popleft()
        return Batch(messages, messages[-1].position, is_full=True, is_held=False)
