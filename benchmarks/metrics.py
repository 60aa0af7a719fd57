"""Every gauge in one round trip, with 10 million messages, a million jobs in 1,000 channels and 64
segments, against 25 ms and against an empty round trip. Everything is behind, so that nothing can
be counted to its end: the segments by all messages, and more jobs are ready than are counted."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.figure import AtMost, Comparison, Figure
from milepost import db

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.workbench import Workbench
    from milepost.db import Connection

_LIMIT_MS = 25.0
_FILL = (
    "alter table milepost.messages disable trigger user",
    """insert into milepost.messages (topic, key, type, data)
    select 'topic-' || number %% 10, 'key-' || number %% 100000, 'Something', '{}'
    from generate_series(1, %(messages)s) as number""",
    "alter table milepost.messages enable trigger user",
    """insert into milepost.processors (name, version, segments, topics, state)
    values ('segmented', 1, 64, null, 'running'), ('filtered', 1, null, '{topic-7}', 'running'),
      ('new', 1, null, null, 'stopped')""",
    """insert into milepost.segments (processor, version, id, mask)
    select 'segmented', 1, number, 63 from generate_series(0, 63) as number""",
    """insert into milepost.checkpoints (processor, version, segment, transaction_id, "position")
    select 'segmented', 1, number, 0, number from generate_series(0, 63) as number
    union all select 'filtered', 1, 0, 0, %(messages)s / 2""",
    """insert into milepost.pipelines (name, version, code_version, sink, is_active, built_at)
    values ('totals', 1, 1, 'ToTable', true, now()), ('totals', 2, 2, 'ToTable', false, null)""",
    """insert into milepost.jobs (channel, content, run_at, status, locked_until, taken, attempt)
    select 'channel-' || number %% %(channels)s, '{"invoice": 17, "to": "somebody@example.com"}',
      clock_timestamp(), status::milepost.job_status,
      case when status = 'running' then clock_timestamp() + interval '1 hour' end,
      case when status = 'running' then number end, 0
    from generate_series(1, %(jobs)s) as number
    cross join lateral (select case
      when number %% 100 = 0 then 'running' when number %% 100 = 1 then 'dead'
      when number %% 10 = 2 then 'scheduled' else 'ready' end) as chosen (status)""",
    "analyze",
)


def measure(bench: Workbench) -> list[Comparison]:
    with bench.database() as url, db.connect(url) as conn:
        sizes = fill(url, bench)
        name = f"metrics(), {sizes['messages']:,} messages, {sizes['jobs']:,} jobs"
        fresh = _compared(bench, conn, f"{name}, never vacuumed")
        conn.execute("vacuum")  # as autovacuum leaves tables of this size
        return [*fresh, *_compared(bench, conn, name)]


def _compared(bench: Workbench, conn: Connection, name: str) -> list[Comparison]:
    pairs = [
        (_typical(conn, "select milepost.metrics()"), _typical(conn, "select 1"))
        for _ in range(bench.choose(5, 1))
    ]
    ours, empty = [list(side) for side in zip(*pairs, strict=True)]
    return [
        Comparison(name, "25 ms", "ms", ours, [_LIMIT_MS] * len(ours), AtMost(1)),
        Comparison(name, "an empty round trip", "ms", ours, empty),
    ]


def fill(url: str, bench: Workbench) -> dict[str, int]:
    """Make the large log and queue; how large they are."""
    sizes = {
        "messages": bench.choose(10_000_000, 20_000),
        "jobs": bench.choose(1_000_000, 20_000),
        "channels": bench.choose(1_000, 50),
    }
    with db.connect(url) as conn:
        for statement in _FILL:
            conn.execute(statement.encode(), sizes)
    return sizes


def _typical(conn: Connection, statement: str) -> float:
    """In milliseconds: the median of some."""
    return median(_milliseconds(lambda: conn.execute(statement.encode())) for _ in range(20))


def _milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


FIGURE = Figure("metrics", "All gauges in one round trip", measure)
