"""From put to the handler's start, one job at a time, while another session holds an old snapshot:
after many jobs, against the start.

The jobs in between go through the same channel in batches: the dead index entries that they leave
are the same.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from statistics import median
from threading import Event
from typing import TYPE_CHECKING

from benchmarks.figure import AtMost, Comparison, Figure
from benchmarks.latency import Arrival, running
from milepost import Milepost, db
from milepost.queue import put
from milepost.records import Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.workbench import Workbench
    from milepost.db import Connection
    from milepost.records import TakenJob

_CHANNEL = "latency"
_BATCH = 1_000
# Not seen by the worker: it is one transaction, without a notification.
_CHURN = """
with put as (
  insert into milepost.jobs (channel, content)
  select 'latency', '{}' from generate_series(1, %s) returning id
)
select count(*) from put
"""
_DONE = """
select milepost.complete(array_agg(id), array_agg(attempt))
from milepost.take_from(array['latency'], %s)
"""
_IDLE_SECONDS = 0.02


def measure(bench: Workbench) -> list[Comparison]:
    return [_measured(bench, pattern) for pattern in (_CHANNEL, "*")]


def _measured(bench: Workbench, pattern: str) -> Comparison:
    jobs = bench.choose(500_000, 5_000)
    with bench.database() as url, db.connect(url) as conn:
        begun = Arrival()
        with _held_snapshot(url), _worker(url, pattern, begun):
            _latency(conn, begun, 50)  # until it has started, and statements are prepared
            before = _latency(conn, begun, bench.choose(500, 50))
            _churn(conn, jobs)
            after = _latency(conn, begun, bench.choose(500, 50))
    name = f"put to handler, p50, worker of {pattern!r}, after {jobs:,} jobs"
    return Comparison(name, "the first jobs", "ms", [after], [before], AtMost(3))


def _latency(conn: Connection, begun: Arrival, count: int) -> float:
    times = []
    for _ in range(count):
        time.sleep(_IDLE_SECONDS)
        times.append(begun.milliseconds_after(partial(put, conn, Job(_CHANNEL, {}))))
    return median(times)


def _churn(conn: Connection, jobs: int) -> None:
    for _ in range(jobs // _BATCH):
        with conn.transaction():
            conn.execute("set local milepost.notify = off")
            conn.execute(_CHURN, [_BATCH])
            conn.execute(_DONE, [_BATCH])


@contextmanager
def _held_snapshot(url: str) -> Iterator[None]:
    with db.connect(url) as conn, conn.transaction():
        conn.execute("set transaction isolation level repeatable read")
        conn.execute("select count(*) from milepost.jobs")
        yield


@contextmanager
def _worker(url: str, pattern: str, begun: Arrival) -> Iterator[None]:
    mp = Milepost(url)

    def note(job: TakenJob) -> None:
        begun.tell()

    worker, stop = mp.worker(pattern)(note), Event()
    with running(lambda: worker.run(stop=stop), stop):
        yield


FIGURE = Figure("queue_held_snapshot", "Latency while an old snapshot is held", measure)
