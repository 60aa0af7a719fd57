"""What the worker has taken and not yet settled, and how many jobs it wants to take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.records import TakenJob

# Between two samples of how many jobs have begun.
SAMPLE_SECONDS = 0.005
# What is known to be slow may wait for this part of the time that jobs may wait: a round trip takes
# less, and there is nothing else to win.
SLOW_SHARE = 4


@dataclass(slots=True)
class Buffer:
    """All jobs that are held, and of these the ones that wait for a handler. Handlers take off
    `waiting` without a lock: single operations of a deque are atomic. The lock is for those that
    change what is held, a batch at a time."""

    waiting: deque[TakenJob] = field(default_factory=deque)
    gated: deque[TakenJob] = field(default_factory=deque)  # these may not begin yet: begins.py
    low: int = 0  # when fewer wait, more should be taken
    taken: int = 0
    lists: set[TakenJob] = field(default_factory=set)  # the first job of each that is handled
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

    def waits_since(self) -> float | None:
        """When the first job that waits was taken; None if none waits."""
        for jobs in (self.waiting, self.gated):
            with suppress(IndexError):
                return jobs[0].taken_at
        return None

    def take_off(self, jobs: deque[TakenJob], leave: int = 0) -> Iterator[TakenJob]:
        """The last ones of `waiting` or `gated`, one by one. A handler may be quicker."""
        while len(jobs) > leave:
            with suppress(IndexError):
                yield self._take_off_one(jobs)

    def _take_off_one(self, jobs: deque[TakenJob]) -> TakenJob:
        job = jobs.pop()
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
class Ahead:
    """How many jobs to take, and which of those that wait go back. Pure: no clock, no connection.

    Handlers never wait for a round trip, because as many jobs are taken ahead as began within the
    last tenth of a second. What would wait for longer than `held_seconds` goes back, where other
    workers, other channels and more urgent jobs get their turn before it. There are two ways to
    know: so few jobs begin now, or the jobs of a channel are known to be slow.
    """

    batch: int
    handlers: int  # jobs that are handled concurrently
    held_seconds: float
    slow: Mapping[str, float]  # how long jobs take now, in the channels where that is long
    _samples: deque[tuple[float, int]] = field(default_factory=deque, init=False)
    _recent: int = field(default=0, init=False)
    _latest: int = field(default=0, init=False)  # as many at the rate of the last sample
    _limit: tuple[int, float] = field(default=(0, 0.0), init=False)  # holds until that time

    def note(self, begun: int, now: float) -> None:
        """So many jobs have begun until now."""
        samples = self._samples
        while len(samples) > 1 and samples[1][0] <= now - self.held_seconds:
            samples.popleft()
        if not samples:
            samples.append((now, begun))
        elif (seconds := now - samples[-1][0]) >= SAMPLE_SECONDS:
            self._latest = int((begun - samples[-1][1]) * self.held_seconds / seconds)
            samples.append((now, begun))
        since, before = samples[0]
        share = min(1.0, self.held_seconds / max(now - since, SAMPLE_SECONDS))
        self._recent = int((begun - before) * share)

    @property
    def recent(self) -> int:
        """How many jobs began within the last `held_seconds`: more need not wait."""
        return self._recent

    def ahead(self, now: float) -> int:
        """How many should wait. None where `batch` is 1. A rate that rises is believed immediately:
        a short burst must not be handled in small takes."""
        ahead = min(2 * (self.batch - 1), max(self._recent, self._latest) // 2)
        limit, until = self._limit
        return min(limit, ahead) if now < until else ahead

    def wanted(self, idle: int, buffered: int, now: float) -> int:
        """How many to take now; none while the buffer is more than half full."""
        ahead = self.ahead(now)
        if buffered > max(idle, ahead // 2):
            return 0
        return max(0, min(self.batch, idle + ahead - buffered))

    def too_slow(
        self, jobs: Sequence[TakenJob], waiting: Sequence[TakenJob], free: int, now: float
    ) -> set[TakenJob]:
        """Those of the jobs, just taken, that are not to wait behind slow ones. The `free` first
        ones begin. One slow job may wait, so that no channel starves behind quick ones, and as many
        as begin within a round trip. If there are more, the next take would find them again: so for
        a while no more jobs are taken ahead than wait now."""
        seconds = sum(self._cost(job) for job in waiting)
        back: set[TakenJob] = set()
        for job in islice(jobs, free, None):
            cost = self._cost(job)
            if cost and seconds and seconds + cost > self.held_seconds / SLOW_SHARE:
                back.add(job)
            else:
                seconds += cost
        if back:
            left = len(waiting) + len(jobs) - len(back) - free
            self._limit = max(1, left), now + self.held_seconds
        return back

    def _cost(self, job: TakenJob) -> float:
        """For how long it keeps all handlers, in a way; 0 if it is quick."""
        return self.slow.get(job.channel, 0.0) / self.handlers


def has_lock(job: TakenJob) -> bool:
    """No job is begun whose lock may have expired, as after a long sleep of the whole process:
    another worker may run it, and its channel's limit would be exceeded."""
    return not job.lost and time.monotonic() < job.deadline
