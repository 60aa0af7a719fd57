"""What the worker has taken and not yet settled, and how many jobs it wants to take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.records import TakenJob

AHEAD_SECONDS = 0.1
# A rate that falls is believed gradually, one that rises immediately.
INERTIA = 0.7


@dataclass(slots=True)
class Buffer:
    """All jobs that are held, and of these the ones that wait for a handler. Handlers take off
    `waiting` without a lock: single operations of a deque are atomic. The lock is for those that
    change what is held, a batch at a time."""

    waiting: deque[TakenJob] = field(default_factory=deque)
    gated: deque[TakenJob] = field(default_factory=deque)  # these may not begin yet: begins.py
    low: int = 0  # when fewer wait, more should be taken
    taken: int = 0
    _held: dict[int, TakenJob] = field(default_factory=dict, init=False)
    _overtaken: set[TakenJob] = field(default_factory=set, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def add(self, jobs: list[TakenJob]) -> None:
        """They are held, and do not wait for a handler yet. A job whose lock expired may come
        again, with its next attempt, while the old attempt still runs here: then the old one is
        lost. It counts until its handler ends, because the handler is not free before."""
        with self._lock:
            for job in jobs:
                if (old := self._held.get(job.id)) is not None:
                    old.lost = True
                    self._overtaken.add(old)
                self._held[job.id] = job
        self.taken += len(jobs)

    def begun(self) -> list[TakenJob]:
        """The jobs that were handed to a handler."""
        with self._lock:
            # Copied first: the other threads change it, and a copy of a deque is atomic.
            unbegun = {*self.waiting.copy(), *self.gated.copy()}
            return [job for job in self._held.values() if job not in unbegun]

    def take_off(self, jobs: deque[TakenJob]) -> Iterator[TakenJob]:
        """Those of `waiting` or `gated`, one by one. A handler may be quicker."""
        while jobs:
            with suppress(IndexError):
                yield self._take_off_one(jobs)

    def _take_off_one(self, jobs: deque[TakenJob]) -> TakenJob:
        job = jobs.popleft()
        self.taken -= 1  # as if it had not been: it does not count as begun
        return job

    def drop(self, jobs: Iterable[TakenJob]) -> None:
        """They are settled, or lost, so that there is nothing to settle."""
        with self._lock:
            for job in jobs:
                self._overtaken.discard(job)
                if self._held.get(job.id) is job:
                    del self._held[job.id]

    def held(self) -> list[TakenJob]:
        with self._lock:
            return list(self._held.values())

    def holds(self, job: TakenJob) -> bool:
        return self._held.get(job.id) is job

    def __len__(self) -> int:
        return len(self._held) + len(self._overtaken)


@dataclass(slots=True)
class Demand:
    """How many jobs to take. Pure: no clock, no connection.

    As many as the handlers can begin immediately, and as many again as they begin within a tenth
    of a second. So they never wait for a round trip, and slow handlers do not keep jobs that other
    workers could handle, nor slots of a limited channel.
    """

    batch: int
    rate: float = field(default=0.0, init=False)  # jobs that handlers began, per second

    def began(self, count: int, seconds: float) -> None:
        """So many jobs were begun within this time."""
        rate = count / seconds
        self.rate = max(rate, INERTIA * self.rate + (1 - INERTIA) * rate)

    def ahead(self) -> int:
        """How many should wait in the buffer."""
        return min(2 * self.batch, int(self.rate * AHEAD_SECONDS))

    def wanted(self, idle: int, buffered: int) -> int:
        """How many to take now; none while the buffer is more than half full."""
        ahead = self.ahead()
        if buffered > max(idle, ahead // 2):
            return 0
        return max(0, min(self.batch, idle + ahead - buffered))


@dataclass(slots=True)
class Standstill:
    """For how long no handler has begun a job. Pure: no clock."""

    _begun: int = field(default=0, init=False)
    _since: float = field(default=0.0, init=False)

    def seconds(self, begun: int, now: float) -> float:
        """So many jobs were begun until now."""
        if begun != self._begun:
            self._begun, self._since = begun, now
        return now - self._since


def has_lock(job: TakenJob) -> bool:
    """No job is begun whose lock may have expired, as after a long sleep of the whole process:
    another worker may run it, and its channel's limit would be exceeded."""
    return not job.lost and time.monotonic() < job.deadline
