"""What a worker has in hand: taken, and not yet given away in any way."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.records import TakenJob


@dataclass(slots=True)
class Hand:
    """Everything held, and of that the part that waits for a handler. Handlers take off `waiting`
    without a lock: single operations on a deque are atomic. The lock keeps those apart who change
    what is held, a batch at a time."""

    waiting: deque[TakenJob] = field(default_factory=deque)
    low: int = 0  # with fewer waiting, more should be taken
    taken: int = 0
    _held: dict[int, TakenJob] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def add(self, jobs: list[TakenJob]) -> None:
        """A job whose lock expired may come again, under its next attempt, while the old one still
        runs here: that one is lost."""
        with self._lock:
            for job in jobs:
                if (old := self._held.get(job.id)) is not None:
                    old.lost = True
                self._held[job.id] = job
        self.taken += len(jobs)
        self.waiting.extend(jobs)

    def drop(self, jobs: Iterable[TakenJob]) -> None:
        """They are told of; or lost, so that there is nothing to tell."""
        with self._lock:
            for job in jobs:
                if self._held.get(job.id) is job:
                    del self._held[job.id]

    def held(self) -> list[TakenJob]:
        with self._lock:
            return list(self._held.values())

    def holds(self, job: TakenJob) -> bool:
        return self._held.get(job.id) is job

    def __len__(self) -> int:
        return len(self._held)


def has_lock(job: TakenJob) -> bool:
    """Nothing is begun whose lock may have expired, as after a long sleep of the whole process:
    another may run it, and its channel's limit would be passed."""
    return not job.lost and time.monotonic() < job.deadline
