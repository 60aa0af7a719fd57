"""A claimed segment within an instance: a state machine, and the messages that wait for it.

    CLAIMED --begun--> WORKING --leave--> LEAVING --> given back
       |                  |                  |
       +-------lose-------+-------lose-------+--> LOST --> dropped

One that is just beginning goes from CLAIMED to LEAVING.

A pool thread serves it in every phase: it begins a claimed segment, handles the messages of a
working one, gives back a leaving one and drops a lost one. Every transition is a method here.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice
from typing import TYPE_CHECKING

from milepost.log import Batch

if TYPE_CHECKING:
    from milepost.processors.segments.claims import Claim
    from milepost.processors.segments.work import SegmentWork
    from milepost.records import Position, RecordedMessage


class Phase(Enum):
    CLAIMED = auto()  # not begun yet
    WORKING = auto()
    LEAVING = auto()  # finish the batch, then give the claim back
    LOST = auto()  # another instance's, or abandoned: drop what waits


@dataclass(slots=True, eq=False)
class ClaimedSegment:
    """Read and changed only with the dispatch's lock held, except `work`, which belongs to the one
    thread that serves the segment."""

    claim: Claim
    work: SegmentWork
    deadline: float  # until when it is surely ours, by the monotonic clock of this process
    advance_seconds: float
    claimed_at: float = field(default_factory=time.monotonic, init=False)
    phase: Phase = field(default=Phase.CLAIMED, init=False)
    reached: Position = field(init=False)  # all up to here was seen: handled, or in `messages`
    passed: Position = field(init=False)  # up to here it was given to the work
    messages: deque[RecordedMessage] = field(default_factory=deque, init=False)
    is_attached: bool = field(default=False, init=False)  # the feed reads for it
    is_served: bool = field(default=False, init=False)  # a pool thread has it
    is_woken: bool = field(default=False, init=False)  # its work asked for attention
    is_flushing: bool = field(default=False, init=False)
    _advanced_at: float = field(default=0.0, init=False)
    _has_begun: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.reached = self.passed = self.claim.position

    @property
    def id(self) -> int:
        return self.claim.segment.id

    # Transitions

    def begun(self) -> None:
        self._has_begun = True
        if self.phase is Phase.CLAIMED:
            self.phase = Phase.WORKING

    def leave(self) -> None:
        """One that has not begun has nothing to finish. One that is just beginning does so first:
        listeners that were told of the claim are told of the release."""
        if self.phase is Phase.WORKING or (self.phase is Phase.CLAIMED and self.is_served):
            self.phase = Phase.LEAVING
        elif self.phase is Phase.CLAIMED:
            self.phase = Phase.LOST

    def interrupted(self) -> None:
        """By a stop, while it was served."""
        if not self._has_begun:
            self.phase = Phase.LOST
        elif self.phase is Phase.WORKING:
            self.phase = Phase.LEAVING

    def lose(self) -> None:
        self.phase = Phase.LOST

    def expire(self, now: float) -> None:
        if self.deadline < now:
            self.lose()

    # What is to be done

    @property
    def is_going(self) -> bool:
        """Whether it is on its way back."""
        return self.phase in (Phase.LEAVING, Phase.LOST)

    @property
    def is_hungry(self) -> bool:
        return not self.messages and not self.is_served

    @property
    def is_drained(self) -> bool:
        """Whether all that was read for it is handled, and it is not behind the feed."""
        is_settled = self.phase is not Phase.CLAIMED and self.is_attached
        return is_settled and self.is_hungry and not self.is_woken

    def is_ready(self, feed: Position, now: float) -> bool:
        """Whether there is something to handle, with the feed at this position."""
        if self.messages or self.is_woken:
            return True
        if not self.is_attached and self.reached < feed:
            return True
        return self.reached > self.passed and self.is_advance_due(now)

    @property
    def may_advance(self) -> bool:
        """Whether there is nothing but what was filtered out for the checkpoint to pass."""
        is_resting = self.phase is Phase.WORKING and self.is_attached and self.is_hungry
        return is_resting and not self.is_woken and self.reached > self.passed

    def is_advance_due(self, now: float) -> bool:
        """Whether the checkpoint may pass what was filtered out: not at every look."""
        return self.is_flushing or now - self._advanced_at >= self.advance_seconds

    # Messages

    def give(self, messages: list[RecordedMessage], reached: Position) -> None:
        if messages and messages[0].position <= self.reached:  # it was ahead of the feed
            messages = [m for m in messages if m.position > self.reached]
        self.messages.extend(messages)
        self.reached = max(self.reached, reached)

    def next_batch(self, batch_size: int) -> Batch:
        """What waits, in batches of the handler's size; an empty one if nothing does."""
        self.is_woken = False
        is_full = len(self.messages) > batch_size
        if not is_full:
            batch = Batch(list(self.messages), self.reached, is_full=False, is_held=False)
            self.messages.clear()
            return batch
        messages = list(islice(self.messages, batch_size))
        for _ in messages:
            self.messages.popleft()
        return Batch(messages, messages[-1].position, is_full=True, is_held=False)

    def delivered(self, batch: Batch, now: float) -> None:
        self.advanced(batch.reached, now)

    def advanced(self, passed: Position, now: float) -> None:
        self.passed, self._advanced_at, self.is_flushing = passed, now, False
