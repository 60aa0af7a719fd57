"""Where the threads of one instance meet: the feed deals to slots, pool threads take them, the
keeper adds and removes them.

The feed reads the log once for all attached segments. A segment that is behind it reads for itself
until it has caught up; one that is full while another has nothing to do falls off, so that the
feed goes on: a slow segment never holds back the others. When all are full the feed waits, which
bounds the memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Condition, Lock
from typing import TYPE_CHECKING

from milepost.processors.segmented.arithmetic import Dealer
from milepost.processors.segmented.slot import Slot

if TYPE_CHECKING:
    from milepost.log import Batch
    from milepost.processors.segmented.claims import Claim
    from milepost.processors.segmented.work import SegmentWork
    from milepost.records import Position, RecordedMessage

FULL_BATCHES = 2
MAX_READ = 5000


@dataclass(frozen=True, slots=True)
class Reading:
    """What the feed is to read next: after this position, for these slots."""

    after: Position
    slots: tuple[Slot, ...]
    batch_size: int


class Board:
    def __init__(self, batch_size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._batch_size, self._clock = batch_size, clock
        self._lock = Lock()
        self._work = Condition(self._lock)  # a slot may be ready: for the pool
        self._room = Condition(self._lock)  # a slot was served: for the feed
        self._slots: dict[int, Slot] = {}  # those that waited longest come first
        self._failure: BaseException | None = None
        self._is_closed = self._is_paused = self._is_leaving = False
        self._position: Position | None = None

    # The keeper's side

    def add(self, added: Sequence[tuple[Claim, SegmentWork]], deadline: float) -> list[Claim]:
        """Together, so that the feed begins for all of them at once. It is where the foremost
        segment is: those behind catch up by themselves. Answers with those that are refused,
        because an earlier claim of the segment has not ended here, or all were told to go."""
        with self._lock:
            refused = [c for c, _ in added if self._is_leaving or c.segment.id in self._slots]
            for claim, work in added:
                if claim not in refused:
                    slot = Slot(claim, work, deadline, claim.position, claim.position)
                    self._slots[slot.id] = slot
                    self._position = max(self._position or claim.position, claim.position)
            for slot in self._slots.values():
                slot.is_attached = slot.reached >= (self._position or slot.reached)
            self._work.notify_all()
            return refused

    def epochs(self) -> tuple[dict[int, int], frozenset[int]]:
        """The claims, and which of them are on their way back."""
        with self._lock:
            here = {id_: slot.claim.epoch for id_, slot in self._slots.items()}
            going = (i for i, slot in self._slots.items() if slot.is_leaving or slot.is_lost)
            return here, frozenset(going)

    def extend(self, epochs: dict[int, int], deadline: float) -> None:
        with self._lock:
            for id_, slot in self._slots.items():
                if epochs.get(id_) == slot.claim.epoch:
                    slot.deadline = deadline

    def lose(self, ids: list[int]) -> None:
        """Drop what waits, and whatever comes of what is in hand."""
        self._mark(ids, "is_lost")

    def leave(self, ids: list[int] | None = None) -> None:
        """Finish what is in hand, then give the claims back; all, if none are named, and also one
        that the keeper is claiming just now."""
        with self._lock:
            self._is_leaving = self._is_leaving or ids is None
        self._mark(ids, "is_leaving")

    def wake(self, claim: Claim) -> None:
        """From any thread: the segment's work wants to be looked at."""
        with self._lock:
            slot = self._slots.get(claim.segment.id)
            if slot is not None and slot.claim.epoch == claim.epoch:
                slot.is_woken = True
                self._work.notify()

    # The feed's side

    @property
    def position(self) -> Position | None:
        """Up to where the feed has read."""
        with self._lock:
            return self._position

    @property
    def number(self) -> int:
        with self._lock:
            return len(self._slots)

    def next_reading(self) -> Reading | None:
        """None while nobody can take any more."""
        with self._lock:
            attached = [slot for slot in self._slots.values() if slot.is_attached]
            full = [s for s in attached if len(s.messages) >= FULL_BATCHES * self._batch_size]
            if full and not any(slot.is_hungry for slot in attached):
                return None
            for slot in full:
                slot.is_attached = False
            slots = tuple(slot for slot in attached if slot.is_attached)
            if self._position is None or not slots:
                return None
            size = max(self._batch_size, min(self._batch_size * len(slots), MAX_READ))
            return Reading(self._position, slots, size)

    def deal(self, reading: Reading, batch: Batch) -> None:
        """Give the slots what was read for them, each the news of how far that was. Sorted without
        the lock; who came or went meanwhile reads for himself."""
        dealt = Dealer(slot.claim.segment for slot in reading.slots).deal(batch.messages)
        with self._lock:
            if self._position != reading.after:
                return  # a claim has moved it
            self._position = batch.reached
            for slot in self._slots.values():
                if slot.is_attached and slot in reading.slots:
                    self._give(slot, dealt[slot.id], batch.reached)
                slot.is_attached = slot.is_attached and slot.reached >= batch.reached
            self._wake_ready()

    def wait_for_room(self, seconds: float) -> None:
        """Until something was served or failed, or for that long."""
        with self._lock:
            if self._failure is None:
                self._room.wait(seconds)

    def pause(self, *, is_paused: bool) -> None:
        with self._lock:
            self._is_paused = is_paused
            self._wake_ready()

    def flush(self) -> bool:
        """Let every checkpoint say how far was looked; whether they do."""
        with self._lock:
            late = [slot for slot in self._slots.values() if slot.passed < slot.reached]
            for slot in late:
                slot.is_flushing = True
            self._wake_ready()
            return not late

    def is_drained(self) -> bool:
        """Whether everything that was read is handled, and nobody is behind the feed."""
        with self._lock:
            slots = self._slots.values()
            return all(s.is_begun and s.is_hungry and s.is_attached for s in slots) and not any(
                s.is_woken for s in slots
            )

    def check(self) -> None:
        """Raise what a thread failed with."""
        with self._lock:
            if self._failure is not None:
                raise self._failure

    def fail(self, error: BaseException) -> None:
        """The first failure ends the session."""
        with self._lock:
            if self._failure is None:
                self._failure = error
            self._room.notify_all()

    def works(self) -> list[SegmentWork]:
        with self._lock:
            return [slot.work for slot in self._slots.values()]

    def wait_until_empty(self, seconds: float) -> bool:
        """Whether every slot was given back or dropped, within so long."""
        with self._lock:
            return self._room.wait_for(lambda: not self._slots, seconds)

    def close(self) -> None:
        """Pool threads take nothing more."""
        with self._lock:
            self._is_closed = True
            self._work.notify_all()
            self._room.notify_all()

    # The pool's side

    def take(self) -> Slot | None:
        """What is to be done next, waiting for it; None at the end."""
        with self._lock:
            while not self._is_closed:
                if (slot := self._next()) is not None:
                    slot.is_in_hand = True
                    return slot
                self._work.wait()
        return None

    def next_batch(self, slot: Slot) -> Batch:
        with self._lock:
            slot.is_woken = False
            return slot.next_batch(self._batch_size)

    def put_back(self, slot: Slot) -> None:
        """Served, for now; it stands at the end of the line."""
        with self._lock:
            slot.is_in_hand = False
            if self._slots.get(slot.id) is slot:
                self._slots[slot.id] = self._slots.pop(slot.id)
                self._attach(slot)
            self._room.notify_all()

    def remove(self, slot: Slot) -> None:
        with self._lock:
            if self._slots.get(slot.id) is slot:
                del self._slots[slot.id]

    def _next(self) -> Slot | None:
        now = self._clock()
        free = [slot for slot in self._slots.values() if not slot.is_in_hand]
        for slot in free:
            if slot.is_urgent(now):
                return slot
        if self._is_paused or self._position is None:
            return None
        return next((slot for slot in free if slot.is_ready(self._position, now)), None)

    def _give(self, slot: Slot, messages: list[RecordedMessage], reached: Position) -> None:
        if messages and messages[0].position <= slot.reached:  # it was ahead of the feed
            messages = [m for m in messages if m.position > slot.reached]
        slot.messages.extend(messages)
        slot.reached = max(slot.reached, reached)

    def _attach(self, slot: Slot) -> None:
        is_there = self._position is not None and slot.reached >= self._position
        slot.is_attached = slot.is_attached or (is_there and not slot.messages)

    def _wake_ready(self) -> None:
        now = self._clock()
        if self._position is not None and not self._is_paused:
            self._work.notify(
                sum(
                    not s.is_in_hand and s.is_ready(self._position, now)
                    for s in self._slots.values()
                )
            )

    def _mark(self, ids: list[int] | None, mark: str) -> None:
        with self._lock:
            for id_ in list(self._slots) if ids is None else ids:
                if (slot := self._slots.get(id_)) is not None:
                    setattr(slot, mark, True)
            self._work.notify_all()
