"""A put into a channel with a max_size that holds 100,000 jobs, against one without."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.figure import AtMost, Comparison, Figure
from milepost import db
from milepost.queue import Policy, put, set_channel
from milepost.records import Job

if TYPE_CHECKING:
    from benchmarks.workbench import Workbench
    from milepost.db import Connection

_FILL = """
insert into milepost.jobs (channel, content)
select channel, '{}' from unnest(array['sized', 'plain']) as channel, generate_series(1, %s)
"""


def measure(bench: Workbench) -> list[Comparison]:
    depth = bench.choose(100_000, 5_000)
    with bench.database() as url, db.connect(url) as conn:
        conn.execute(_FILL, [depth])
        # With little room: the channel is counted again each time it may be used up.
        set_channel(conn, "sized", Policy(max_size=depth + depth // 20))
        _pairs(conn, 20)  # until statements are prepared
        rounds = [_pairs(conn, bench.choose(200, 20)) for _ in range(bench.choose(7, 2))]
    ours = [median(pair[0] for pair in pairs) for pairs in rounds]
    baseline = [median(pair[1] for pair in pairs) for pairs in rounds]
    name = f"put into a channel with a max_size, {depth:,} jobs in it"
    return [Comparison(name, "without a max_size", "ms", ours, baseline, AtMost(2))]


def _pairs(conn: Connection, count: int) -> list[tuple[float, float]]:
    return [(_put(conn, "sized"), _put(conn, "plain")) for _ in range(count)]


def _put(conn: Connection, channel: str) -> float:
    began = time.perf_counter()
    put(conn, Job(channel, {}))
    return (time.perf_counter() - began) * 1000


FIGURE = Figure("queue_max_size", "A put into a long channel with a max_size", measure)
