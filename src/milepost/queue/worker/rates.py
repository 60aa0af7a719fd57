"""How many jobs a worker finishes per second in each channel, for operators; and in which channels
they are slow, for itself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import exp
from threading import Lock
from typing import TYPE_CHECKING

from milepost import db
from milepost.owner import owner_name

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.records import TakenJob

# With more channels than that, the slower ones are left out.
MOST_CHANNELS = 1000
# Of what was seen so long ago, a third counts.
MEMORY_SECONDS = 5.0
# Who was busy for less, of late, is forgotten.
LEAST_SECONDS = 0.01


@dataclass(slots=True)
class Sample:
    """Of the jobs of a channel, of late: for how long they ran, and how many ended."""

    seconds: float = 0.0
    ended: float = 0.0
    done: int = 0  # of the report when it was seen last

    def look(self, seconds: float, done: int, fade: float) -> None:
        self.seconds = self.seconds * fade + seconds
        # Fewer than before: a report was sent meanwhile.
        self.ended = self.ended * fade + (done if done < self.done else done - self.done)
        self.done = done


@dataclass(slots=True)
class Rates:
    """`slow`: how long a job takes in the channels where it takes at least `slow_seconds`. Not
    measured for each job, which would cost more than handling it may cost: what runs is looked at
    now and then. What ran at two looks makes its channel known."""

    report_seconds: float
    slow_seconds: float
    slow: dict[str, float] = field(default_factory=dict)
    owner: str = field(default_factory=owner_name)
    _done: Counter[str] = field(default_factory=Counter, init=False)
    _reported: set[str] = field(default_factory=set, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)
    _since: float = field(default_factory=time.monotonic, init=False)
    _samples: dict[str, Sample] = field(default_factory=dict, init=False)
    _running: set[TakenJob] = field(default_factory=set, init=False)  # at the last look
    _looked_at: float = field(default=0.0, init=False)

    def done(self, jobs: Iterable[TakenJob]) -> None:
        channels = [job.channel for job in jobs]
        with self._lock:
            self._done.update(channels)

    def look(self, running: set[TakenJob], now: float) -> None:
        """These run now. Channels count of which one ran at the last look, too."""
        seconds, before, self._running = now - self._looked_at, self._running, running
        self._looked_at, fade = now, exp(-seconds / MEMORY_SECONDS)
        channels = dict.fromkeys([*self._samples, *(job.channel for job in running & before)])
        numbers = Counter(job.channel for job in running)
        with self._lock:
            for channel in channels:
                sample = self._samples.setdefault(channel, Sample(done=self._done[channel]))
                sample.look(numbers[channel] * seconds, self._done[channel], fade)
                self._judge(channel, sample, numbers[channel])

    def _judge(self, channel: str, sample: Sample, running: int) -> None:
        average = sample.seconds / max(1.0, sample.ended, running)
        if average >= self.slow_seconds:
            self.slow[channel] = average
        else:
            self.slow.pop(channel, None)
        if sample.seconds < LEAST_SECONDS or len(self._samples) > MOST_CHANNELS:
            del self._samples[channel]
            self.slow.pop(channel, None)

    def is_due(self) -> bool:
        """Whether it is time, and there is something to report: an idle worker needs no connection
        for it."""
        with self._lock:
            now = time.monotonic()
            if now - self._since < self.report_seconds:
                return False
            if self._done or self._reported:
                return True
            self._since = now
            return False

    def report(self, conn: Connection, schema: str) -> None:
        """A channel in which nothing is done any more is reported once, with 0."""
        seconds = time.monotonic() - self._since
        with self._lock:
            done, self._done, self._since = self._done, Counter(), time.monotonic()
        counts = dict(done.most_common(MOST_CHANNELS))
        rates = dict.fromkeys(self._reported, 0.0) | {c: n / seconds for c, n in counts.items()}
        self._reported = set(counts)
        if rates:
            db.run(
                conn,
                schema,
                "queue_report_rates",
                owner=self.owner,
                channels=list(rates),
                rates=list(rates.values()),
            )
