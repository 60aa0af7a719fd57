"""From put to the handler's first line on an idle system, one job at a time, against the bare
minimum: a NOTIFY that is answered with one statement.

The baseline is taken in two ways, and both carry the target: a NOTIFY alone, which writes nothing
and so waits for no disk; and one in the statement that inserts the same job, as a put must.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from statistics import median, quantiles
from threading import Event
from typing import TYPE_CHECKING

from benchmarks.figure import AtMost, Comparison, Figure
from benchmarks.latency import Arrival, comparison, listening, running
from milepost import Milepost, db
from milepost.queue import put
from milepost.records import Job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import LiteralString

    from benchmarks.workbench import Workbench
    from milepost.db import Connection
    from milepost.records import TakenJob

_CHANNEL = "latency"
_OLDEST = """
select id, channel, attempt, failures, max_attempts, priority, run_at, content, state
from bare.jobs where status = 'ready' and channel = 'latency'
order by channel, priority, run_at, id limit 1
"""
_NOTIFY = "select pg_notify('bare', '')"
_INSERT_NOTIFY = """
with job as (insert into bare.jobs (channel, content) values ('latency', '{}') returning id)
select pg_notify('bare', '') from job
"""
# Before each, so that the worker has told of the last job, found nothing more, and rests again.
_IDLE_SECONDS = 0.02
_ALONE, _INSERTING = "NOTIFY, one SELECT", "INSERT and NOTIFY, one SELECT"


def measure(bench: Workbench) -> list[Comparison]:
    with bench.database() as url, db.connect(url) as conn:
        begun, selected = Arrival(), Arrival()
        with _worker(url, begun), listening(url, _OLDEST, selected):
            begun.milliseconds_after(partial(_put, conn))  # until it has started
            return [
                *_compared(bench, conn, _ALONE, begun, selected, _NOTIFY),
                *_compared(bench, conn, _INSERTING, begun, selected, _INSERT_NOTIFY),
            ]


def _compared(
    bench: Workbench,
    conn: Connection,
    against: str,
    begun: Arrival,
    selected: Arrival,
    notify: LiteralString,
) -> list[Comparison]:
    def pair() -> tuple[float, float]:
        time.sleep(_IDLE_SECONDS)
        ours = begun.milliseconds_after(partial(_put, conn))
        time.sleep(_IDLE_SECONDS)
        return ours, selected.milliseconds_after(partial(conn.execute, notify))

    for _ in range(20):
        pair()
    rounds = [[pair() for _ in range(bench.choose(100, 10))] for _ in range(bench.choose(7, 2))]
    return [
        comparison("put to handler, p50", against, rounds, median, AtMost(3)),
        comparison("put to handler, p99", against, rounds, _p99, None),
    ]


def _p99(times: list[float]) -> float:
    return quantiles(times, n=100)[98]


def _put(conn: Connection) -> None:
    put(conn, Job(_CHANNEL, {}))


@contextmanager
def _worker(url: str, begun: Arrival) -> Iterator[None]:
    mp = Milepost(url)

    def note(job: TakenJob) -> None:
        begun.tell()

    worker, stop = mp.worker(_CHANNEL)(note), Event()
    with running(lambda: worker.run(stop=stop), stop):
        yield


FIGURE = Figure("queue_latency", "From put to the handler's start, idle, one at a time", measure)
