"""What a take costs when a million jobs wait, against a thousand: it should not matter.

Taken jobs are completed and as many put, outside of what is timed, so that both depths stay as
they are, and both queues see the same churn.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.figure import AtMost, Comparison, Figure
from milepost import db
from milepost.queue import Taker
from milepost.queue.verbs import complete

if TYPE_CHECKING:
    from benchmarks.workbench import Workbench
    from milepost.db import Connection

_FILL = """
insert into milepost.jobs (channel, content)
select 'channel-' || number %% %(channels)s, '{}' from generate_series(1, %(count)s) as number
"""
_AGAIN = """
insert into milepost.jobs (channel, content)
select channel, '{}' from unnest(%(channels)s::text[]) as channel
"""
_LIMIT = """
insert into milepost.channels (name, max_concurrency)
select 'channel-' || number, 1000 from generate_series(0, %(channels)s - 1) as number
"""
_BATCH = 100
_UNIT = "µs a take"


@dataclass(frozen=True, slots=True)
class _Queue:
    conn: Connection
    taker: Taker = field(default_factory=Taker)

    def fill(self, count: int, channels: int, *, are_limited: bool) -> None:
        parameters = {"count": count, "channels": channels}
        if are_limited:
            self.conn.execute(_LIMIT, parameters)
        self.conn.execute(_FILL, parameters)
        self.conn.execute("vacuum analyze milepost.jobs, milepost.channels")
        self.conn.execute("checkpoint")

    def take(self) -> float:
        """The microseconds of a take; all that it took is then as it was."""
        began = time.perf_counter()
        jobs = self.taker.take(self.conn, _BATCH)
        taken = (time.perf_counter() - began) * 1e6
        if len(jobs) != _BATCH:
            raise RuntimeError(f"only {len(jobs)} of {_BATCH} jobs were taken")
        complete(self.conn, jobs)
        self.conn.execute(_AGAIN, {"channels": [job.channel for job in jobs]})
        return taken


def measure(bench: Workbench) -> list[Comparison]:
    many = bench.choose(1_000_000, 20_000)
    return [
        _compared(bench, many, channels=1, are_limited=False),
        _compared(bench, many, channels=100, are_limited=False),
        _compared(bench, many, channels=100, are_limited=True),
    ]


def _compared(bench: Workbench, many: int, channels: int, *, are_limited: bool) -> Comparison:
    with (
        bench.database() as many_url,
        bench.database() as few_url,
        db.connect(many_url) as many_conn,
        db.connect(few_url) as few_conn,
    ):
        deep, shallow = _Queue(many_conn), _Queue(few_conn)
        deep.fill(many, channels, are_limited=are_limited)
        shallow.fill(1_000, channels, are_limited=are_limited)
        for _ in range(10):  # until statements are prepared and caches warm
            _pair(deep, shallow)
        rounds = [
            [_pair(deep, shallow) for _ in range(bench.choose(20, 5))]
            for _ in range(bench.choose(15, 2))
        ]
    kind = ", limited" if are_limited else ""
    name = f"take of {_BATCH} of {many:,} waiting, channels: {channels}{kind}"
    ours = [median(pair[0] for pair in pairs) for pairs in rounds]
    baseline = [median(pair[1] for pair in pairs) for pairs in rounds]
    return Comparison(name, "of 1,000 waiting", _UNIT, ours, baseline, AtMost(1.5))


def _pair(deep: _Queue, shallow: _Queue) -> tuple[float, float]:
    return deep.take(), shallow.take()


FIGURE = Figure("queue_take", "A take when a million jobs wait, against a thousand", measure)
