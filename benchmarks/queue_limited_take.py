"""A take that finds nothing because 5,000 channels are at their limit, against 10 ms: by a worker,
which remembers what it found, and in full."""

from __future__ import annotations

import time
from statistics import mean
from typing import TYPE_CHECKING

from benchmarks.figure import AtMost, Comparison, Figure
from milepost import db
from milepost.queue import Taker
from milepost.queue.verbs import take

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.workbench import Workbench

_FILL = (
    """insert into milepost.channels (name, max_concurrency)
    select 'channel-' || number, 1 from generate_series(1, %(channels)s) as number""",
    """insert into milepost.jobs (channel, content)
    select 'channel-' || 1 + number %% %(channels)s, '{}'
    from generate_series(1, 2 * %(channels)s) as number""",
)
_LIMIT_MS, _LOCK_SECONDS = 10.0, 3600.0


def measure(bench: Workbench) -> list[Comparison]:
    channels = bench.choose(5_000, 200)
    with bench.database() as url, db.connect(url) as conn:
        for statement in _FILL:
            conn.execute(statement.encode(), {"channels": channels})
        while take(conn, 1_000, _LOCK_SECONDS):
            pass
        taker = Taker("*")
        rounds = [_mean(lambda: taker.take(conn, 10), 200) for _ in range(bench.choose(5, 1))]
        in_full = [_mean(lambda: take(conn, 10), 10) for _ in rounds]
    name = f"empty take, {channels:,} channels at their limit"
    limit = [_LIMIT_MS] * len(rounds)
    return [
        Comparison(f"{name}, by a worker", "10 ms", "ms", rounds, limit, AtMost(1)),
        Comparison(f"{name}, in full", "10 ms", "ms", in_full, limit),
    ]


def _mean(work: Callable[[], object], times: int) -> float:
    """In milliseconds."""
    return mean(_milliseconds(work) for _ in range(times))


def _milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


FIGURE = Figure("queue_limited_take", "An empty take while channels are at their limit", measure)
