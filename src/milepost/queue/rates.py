"""How many jobs a worker ends a second, by channel, for operators to see."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from milepost import sql
from milepost.db import translated
from milepost.owner import owner_name

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.records import TakenJob

REPORT_SECONDS = 5.0
# With more channels than that, the slower ones are left out.
MOST_CHANNELS = 1000


@dataclass(slots=True)
class Rates:
    schema: str
    clock: Callable[[], float] = time.monotonic
    owner: str = field(default_factory=owner_name)
    _done: Counter[str] = field(default_factory=Counter, init=False)
    _reported: set[str] = field(default_factory=set, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)
    _since: float = field(init=False)

    def __post_init__(self) -> None:
        self._since = self.clock()

    def done(self, jobs: Iterable[TakenJob]) -> None:
        channels = [job.channel for job in jobs]
        with self._lock:
            self._done.update(channels)

    def is_due(self) -> bool:
        return self.clock() - self._since >= REPORT_SECONDS

    def report(self, conn: Connection) -> None:
        """A channel in which nothing more is done is told of once."""
        seconds = self.clock() - self._since
        with self._lock:
            done, self._done, self._since = self._done, Counter(), self.clock()
        counts = dict(done.most_common(MOST_CHANNELS))
        rates = dict.fromkeys(self._reported, 0.0) | {c: n / seconds for c, n in counts.items()}
        self._reported = set(counts)
        if rates:
            parameters = {
                "owner": self.owner, "channels": list(rates), "rates": list(rates.values())
            }  # fmt: skip
            with translated(self.schema):
                conn.execute(sql.query("queue_report_rates", self.schema), parameters)
