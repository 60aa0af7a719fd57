"""Sustained load while another session holds a snapshot open, so that nothing dead can be removed:
the queue gets slower, and must not collapse. MILEPOST_BLOAT_SECONDS=300 runs longer."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from milepost import db
from milepost.db import Connection, one
from milepost.queue import Policy, Taker, put, set_channel
from milepost.queue.rotation import Rotation
from milepost.queue.take import complete
from milepost.records import Job
from milepost.sql import LogOrder

SECONDS = float(os.environ.get("MILEPOST_BLOAT_SECONDS", "60"))
CHANNELS = 20
BATCH = 500
AHEAD = 5 * BATCH  # what is kept waiting: the work is never done


@pytest.fixture
def order() -> LogOrder:
    return "append"


@contextmanager
def held_snapshot(url: str) -> Iterator[None]:
    with db.connect(url) as conn, conn.transaction():
        conn.execute("set transaction isolation level repeatable read")
        conn.execute("select count(*) from milepost.jobs")
        yield


@dataclass
class Load:
    """One producer and one taker, and when each batch was done."""

    url: str
    taker: Taker
    done_at: list[tuple[float, int]] = field(default_factory=list)
    put_count: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def produce(self) -> None:
        with db.connect(self.url) as conn:
            while not self.stop.is_set():
                if self.put_count - self.done_count > AHEAD:
                    self.stop.wait(0.002)
                    continue
                jobs = [Job(f"channel{n % CHANNELS}", n) for n in range(BATCH)]
                self.put_count += len(put(conn, *jobs))

    def work(self) -> None:
        with db.connect(self.url) as conn:
            while not self.stop.is_set():
                jobs = self.taker.take(conn, BATCH)
                complete(conn, jobs)
                self.done_at.append((time.monotonic(), len(jobs)))

    @property
    def done_count(self) -> int:
        return sum(count for _, count in self.done_at[:])

    def run(self, seconds: float) -> list[float]:
        """The jobs a second of the first, second and last third of the time."""
        started = time.monotonic()
        with ThreadPoolExecutor(2) as pool:
            doing = [pool.submit(self.produce), pool.submit(self.work)]
            while time.monotonic() < started + seconds and not any(f.done() for f in doing):
                self.stop.wait(0.1)
            self.stop.set()
            for future in doing:
                future.result(60)
        third = seconds / 3
        counts = [0, 0, 0]
        for at, count in self.done_at:
            counts[min(2, int((at - started) / third))] += count
        return [count / third for count in counts]


def dead_tuples(conn: Connection) -> int:
    """Every update and deletion since the statistics were made, and the rows still there."""
    conn.execute("select pg_stat_force_next_flush()")
    row = conn.execute(
        "select n_dead_tup from pg_stat_user_tables where relid = 'milepost.jobs'::regclass"
    )
    return int(one(row.fetchone())[0])


@pytest.mark.timeout(SECONDS * 3 + 120)
@pytest.mark.parametrize("max_concurrency", [None, 1000])
def test_a_held_snapshot_does_not_make_the_queue_collapse(
    url: str,
    conn: Connection,
    max_concurrency: int | None,
    record_property: Callable[[str, object], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    if max_concurrency:
        for n in range(CHANNELS):
            set_channel(conn, f"channel{n}", Policy(max_concurrency))
    # For comparison only, and not in the suite: a slow look is never slow enough for hints.
    is_hinted = os.environ.get("MILEPOST_BLOAT_HINTS", "on") == "on"
    rotation = Rotation() if is_hinted else Rotation(slow_seconds=float("inf"))
    load = Load(url, Taker(rotation=rotation))
    with held_snapshot(url):
        rates = load.run(SECONDS / 2)
        dead = dead_tuples(conn)
    record_property("jobs_per_second", [round(rate) for rate in rates])
    record_property("dead_tuples", dead)
    with capsys.disabled():
        by_third = ", ".join(f"{rate:,.0f}" for rate in rates)
        print(  # noqa: T201
            f"\n{SECONDS / 2:.0f} s under a held snapshot, max_concurrency {max_concurrency}: "
            f"{by_third} jobs/s by thirds, {dead:,} dead tuples"
        )
    assert dead > load.done_count, "the snapshot was not held"
    assert rates[2] >= rates[0] / 2
