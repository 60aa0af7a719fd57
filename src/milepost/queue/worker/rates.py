"""How many jobs a worker finishes per second in each channel, for operators."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from milepost import db
from milepost.owner import owner_name

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.records import TakenJob

# With more channels than that, the slower ones are left out.
MOST_CHANNELS = 1000


@dataclass(slots=True)
class Rates:
    report_seconds: float
    owner: str = field(default_factory=owner_name)
    _done: Counter[str] = field(default_factory=Counter, init=False)
    _reported: set[str] = field(default_factory=set, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)
    _since: float = field(default_factory=time.monotonic, init=False)

    def done(self, jobs: Iterable[TakenJob]) -> None:
        channels = [job.channel for job in jobs]
        with self._lock:
            self._done.update(channels)

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
