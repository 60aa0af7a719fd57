"""Where the threads of one instance meet: the feed gives messages to claimed segments, pool threads
serve them, the keeper adds and removes them.

The feed reads the log once for all attached segments. A segment that is behind it reads for itself
until it has caught up. One that is full while another has nothing to do is detached, so that the
feed goes on: a slow segment never holds back the others. When all are full the feed waits, which
bounds the memory.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Condition, Lock
from typing import TYPE_CHECKING

from milepost.processors.segments.claimed_segment import ClaimedSegment, Phase
from milepost.processors.segments.split_merge import Dealer

if TYPE_CHECKING:
    from milepost.checkpoints import Advance
    from milepost.log import Batch
    from milepost.processors.segments.claims import Claim
    from milepost.processors.segments.work import SegmentWork
    from milepost.records import Position

FULL_BATCHES = 2
MAX_READ = 5000


@dataclass(frozen=True, slots=True)
class Reading:
    """What the feed is to read next: after this position, for these segments."""

    after: Position
    segments: tuple[ClaimedSegment, ...]
    batch_size: int


class Dispatch:
    def __init__(self, batch_size: int, advance_seconds: float = 1.0) -> None:
        self._batch_size, self._advance_seconds = batch_size, advance_seconds
        self.lock = Lock()  # also for a pool thread, whose segment others look at meanwhile
        self._work = Condition(self.lock)  # a segment may be ready: for the pool
        self._room = Condition(self.lock)  # one was served: for the feed
        self._segments: dict[int, ClaimedSegment] = {}  # those that waited longest come first
        self._failure: BaseException | None = None
        self._is_closed = self._is_paused = self._is_leaving = False
        self._position: Position | None = None

    # The keeper's side

    def add(self, added: Sequence[tuple[Claim, SegmentWork]], deadline: float) -> list[Claim]:
        """Together, so that the feed begins for all of them at the same position: where the
        foremost segment is. Those behind catch up by themselves. Returns those that are refused,
        because an earlier claim of the segment has not ended here, or the session is about to."""
        with self.lock:
            is_ending = self._is_leaving or self._failure is not None
            refused = [c for c, _ in added if is_ending or c.segment.id in self._segments]
            for claim, work in added:
                if claim not in refused:
                    segment = ClaimedSegment(claim, work, deadline, self._advance_seconds)
                    self._segments[segment.id] = segment
                    self._position = max(self._position or claim.position, claim.position)
            for segment in self._segments.values():
                segment.is_attached = segment.reached >= (self._position or segment.reached)
            self._work.notify_all()
            return refused

    def epochs(self) -> tuple[dict[int, int], frozenset[int]]:
        """The claims, and which of them are on their way back."""
        with self.lock:
            here = {id_: segment.claim.epoch for id_, segment in self._segments.items()}
            return here, frozenset(i for i, s in self._segments.items() if s.is_going)

    def handled(self) -> dict[tuple[int, int], Position]:
        """By segment and epoch: what is handled, where that is not what is stored."""
        with self.lock:
            claimed = list(self._segments.values())
        found = (((each.id, each.claim.epoch), each.work.handled) for each in claimed)
        return {claim: position for claim, position in found if position is not None}

    def extend(self, epochs: dict[int, int], deadline: float) -> None:
        with self.lock:
            for id_, segment in self._segments.items():
                if epochs.get(id_) == segment.claim.epoch:
                    segment.deadline = deadline

    def lose(self, ids: list[int]) -> None:
        """Drop what waits, and the outcome of what is being handled."""
        with self.lock:
            for id_ in ids:
                if id_ in self._segments:
                    self._segments[id_].lose()
            self._work.notify_all()

    def leave(self, ids: list[int] | None = None) -> None:
        """Finish what is being handled, then give the claims back. All of them if none are named,
        and also one that the keeper is claiming at this moment."""
        with self.lock:
            self._is_leaving = self._is_leaving or ids is None
            for id_ in list(self._segments) if ids is None else ids:
                if id_ in self._segments:
                    self._segments[id_].leave()
            self._work.notify_all()

    def holds(self, claim: Claim) -> bool:
        """From any thread: whether the claim is not lost and, by the clock of this process, its
        time is not over. Once it was found to be over, it is lost."""
        with self.lock:
            segment = self._segments.get(claim.segment.id)
            if segment is None or segment.claim.epoch != claim.epoch:
                return False
            segment.expire(time.monotonic())
            return segment.phase is not Phase.LOST

    def is_working(self) -> bool:
        """Whether any segment has begun and is not on its way back."""
        with self.lock:
            return any(s.phase is Phase.WORKING for s in self._segments.values())

    def wake(self, claim: Claim) -> None:
        """From any thread: the segment's work needs attention."""
        with self.lock:
            segment = self._segments.get(claim.segment.id)
            if segment is not None and segment.claim.epoch == claim.epoch:
                segment.is_woken = True
                self._work.notify()

    # The feed's side

    @property
    def position(self) -> Position | None:
        """Up to where the feed has read."""
        with self.lock:
            return self._position

    @property
    def number(self) -> int:
        with self.lock:
            return len(self._segments)

    def next_reading(self) -> Reading | None:
        """None while nobody can take any more."""
        with self.lock:
            attached = [s for s in self._segments.values() if s.is_attached]
            full = [s for s in attached if len(s.messages) >= FULL_BATCHES * self._batch_size]
            if full and not any(segment.is_hungry for segment in attached):
                return None
            for segment in full:
                segment.is_attached = False
            reading = tuple(segment for segment in attached if segment.is_attached)
            if self._position is None or not reading:
                return None
            size = max(self._batch_size, min(self._batch_size * len(reading), MAX_READ))
            return Reading(self._position, reading, size)

    def deal(self, reading: Reading, batch: Batch) -> None:
        """Give each segment what was read for it, and tell it how far was read. Sorted without the
        lock. One that came or went meanwhile reads for itself."""
        dealt = Dealer(s.claim.segment for s in reading.segments).deal(batch.messages)
        with self.lock:
            if self._position != reading.after:
                return  # a claim has moved it
            self._position = batch.reached
            for segment in self._segments.values():
                if segment.is_attached and segment in reading.segments:
                    segment.give(dealt[segment.id], batch.reached)
                segment.is_attached = segment.is_attached and segment.reached >= batch.reached
            self._wake_ready()

    def wait_for_room(self, seconds: float) -> None:
        """Until something was served or failed, or for that long."""
        with self.lock:
            if self._failure is None:
                self._room.wait(seconds)

    def pause(self, *, is_paused: bool) -> None:
        with self.lock:
            self._is_paused = is_paused
            self._wake_ready()

    def flush(self) -> bool:
        """Let every checkpoint pass what was read; whether all have."""
        with self.lock:
            late = [s for s in self._segments.values() if s.passed < s.reached]
            for segment in late:
                segment.is_flushing = True
            self._wake_ready()
            return not late

    def is_drained(self) -> bool:
        """Whether everything that was read is handled, and nobody is behind the feed."""
        with self.lock:
            return all(segment.is_drained for segment in self._segments.values())

    def check(self) -> None:
        """Raise what a thread failed with."""
        with self.lock:
            if self._failure is not None:
                raise self._failure

    def fail(self, error: BaseException) -> None:
        """The first failure ends the session."""
        with self.lock:
            if self._failure is None:
                self._failure = error
            self._room.notify_all()

    def works(self) -> list[SegmentWork]:
        with self.lock:
            return [segment.work for segment in self._segments.values()]

    def wait_until_empty(self, seconds: float) -> bool:
        """Whether every segment was given back or dropped, within so long."""
        with self.lock:
            return self._room.wait_for(lambda: not self._segments, seconds)

    def close(self) -> None:
        """Pool threads take nothing more."""
        with self.lock:
            self._is_closed = True
            self._work.notify_all()
            self._room.notify_all()

    # The pool's side

    def take(self) -> ClaimedSegment | None:
        """What is to be served next, waiting for it; None at the end."""
        with self.lock:
            while not self._is_closed:
                if (segment := self._next()) is not None:
                    segment.is_served = True
                    return segment
                self._work.wait()
        return None

    def next_batch(self, segment: ClaimedSegment) -> Batch | None:
        """What waits for it; None: it reads for itself."""
        with self.lock:
            batch = segment.next_batch(self._batch_size)
            return None if not batch.messages and not segment.is_attached else batch

    def take_advancing(self) -> dict[ClaimedSegment, Advance]:
        """All whose checkpoints may pass what was filtered out, due or not: one statement moves
        them all."""
        with self.lock:
            found = {s: s.work.advance(s.reached) for s in self._segments.values() if s.may_advance}
            taken = {segment: advance for segment, advance in found.items() if advance is not None}
            for segment in taken:
                segment.is_served = True
            return taken

    def put_back(self, segment: ClaimedSegment) -> None:
        """Served, for now. It goes to the end of the line."""
        with self.lock:
            segment.is_served = False
            if self._segments.get(segment.id) is segment:
                self._segments[segment.id] = self._segments.pop(segment.id)
                is_there = self._position is not None and segment.reached >= self._position
                if is_there and not segment.messages:
                    segment.is_attached = True
            self._room.notify_all()

    def remove(self, segment: ClaimedSegment) -> None:
        with self.lock:
            if self._segments.get(segment.id) is segment:
                del self._segments[segment.id]

    def _next(self) -> ClaimedSegment | None:
        now = time.monotonic()
        free = [segment for segment in self._segments.values() if not segment.is_served]
        for segment in free:
            segment.expire(now)
            if segment.phase is not Phase.WORKING:
                return segment
        if self._is_paused or self._position is None:
            return None
        return next((s for s in free if s.is_ready(self._position, now)), None)

    def _wake_ready(self) -> None:
        now = time.monotonic()
        if self._position is not None and not self._is_paused:
            segments = self._segments.values()
            ready = (not s.is_served and s.is_ready(self._position, now) for s in segments)
            self._work.notify(sum(ready))
