"""What a worker that took jobs ahead keeps from others: jobs of new channels, and a second worker.

One worker of `*` with four handlers, after it has worked on 10,000 channels with quick jobs. A job
of a new channel is put again and again while these get some more, and one channel has a backlog of
slow jobs. A handler is not interrupted, so a slow job lasts less than the target. And: of so many
slow jobs, how many an idle worker begins that is started when the first worker has begun some.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from random import Random
from statistics import median
from threading import Event
from typing import TYPE_CHECKING

from benchmarks.figure import AtLeast, AtMost, Comparison, Figure
from benchmarks.latency import Arrival, running
from milepost import Milepost, db
from milepost.queue import put
from milepost.records import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.workbench import Workbench
    from milepost.records import TakenJob

_HANDLERS = 4
_QUICK_SECONDS, _SLOW_SECONDS = 0.001, 0.1
_TARGET_MS = 150.0
_SLOW = "slow"
_IN_TURN = 20  # quick jobs in one put


def measure(bench: Workbench) -> list[Comparison]:
    times = [_new_channel(bench) for _ in range(bench.choose(5, 1))]
    slow = bench.choose(200, 40)
    shares = [float(_second_worker(bench, slow)) for _ in times]
    name = "a job of a new channel begins, p50"
    return [
        Comparison(name, "150 ms", "ms", times, [_TARGET_MS] * len(times), AtMost(1)),
        Comparison(
            f"of {slow} slow jobs, an idle worker begins",
            "half of them",
            "jobs",
            shares,
            [slow / 2] * len(times),
            AtLeast(0.8),
        ),
    ]


def _new_channel(bench: Workbench) -> float:
    channels, jobs = bench.choose(10_000, 500), bench.choose(100, 20)
    with bench.database() as url, db.connect(url) as conn:
        begun = Arrival()

        def handle(job: TakenJob) -> None:
            if job.content == 0:
                begun.tell()
            time.sleep(job.content)

        put(conn, *(Job(f"channel {number}", _QUICK_SECONDS) for number in range(channels)))
        with _worker(url, handle):
            while conn.execute("select from milepost.jobs limit 1").fetchone() is not None:
                time.sleep(0.1)
            put(conn, *(Job(_SLOW, _SLOW_SECONDS) for _ in range(10 * jobs * _HANDLERS)))
            with _quick_jobs(url, channels):
                return median(
                    begun.milliseconds_after(lambda n=number: put(conn, Job(f"new {n}", 0)))  # type: ignore[misc]
                    for number in range(jobs)
                )


@contextmanager
def _quick_jobs(url: str, channels: int) -> Iterator[None]:
    """Some 200 a second, so that the worker begins many jobs beside the slow ones."""
    chance, stop = Random(1), Event()

    def put_some() -> None:
        with db.connect(url) as conn:
            while not stop.wait(0.1):
                names = [f"channel {chance.randrange(channels)}" for _ in range(_IN_TURN)]
                put(conn, *(Job(name, _QUICK_SECONDS) for name in names))

    with running(put_some, stop):
        yield


def _second_worker(bench: Workbench, slow: int) -> int:
    begun = {"first": 0, "second": 0}

    def handle(worker: str, job: TakenJob) -> None:
        begun[worker] += bool(job.content)
        time.sleep(job.content or 0.0)

    with bench.database() as url, db.connect(url) as conn:
        put(conn, *(Job(_SLOW, seconds) for seconds in [0] * 2_000 + [_SLOW_SECONDS] * slow))
        with _worker(url, lambda job: handle("first", job)):
            while not begun["first"]:
                time.sleep(0.001)
            with _worker(url, lambda job: handle("second", job)):
                while begun["first"] + begun["second"] < slow:
                    time.sleep(0.01)
    return begun["second"]


@contextmanager
def _worker(url: str, handle: Callable[[TakenJob], None]) -> Iterator[None]:
    worker, stop = Milepost(url).worker("*", concurrency=_HANDLERS)(handle), Event()
    with running(lambda: worker.run(stop=stop), stop):
        yield


FIGURE = Figure("queue_fairness", "What a busy worker keeps from new channels and others", measure)
