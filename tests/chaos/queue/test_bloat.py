"""Sustained load while another session holds a snapshot open, so that nothing dead can be removed:
the queue gets slower, and must not collapse."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from milepost import db
from milepost.db import Connection, one
from milepost.queue import Policy, Taker, put, set_channel
from milepost.queue.verbs import complete
from milepost.queue.worker.rotation import Rotation
from milepost.records import Job
from milepost.sql import LogOrder
from tests.chaos.options import SECONDS, TIMEOUT_SECONDS
from tests.soak import Figures

LOAD_SECONDS = max(20.0, SECONDS)  # thirds of less say little
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
class Third:
    seconds: float
    count: int = 0
    busy_seconds: float = 0.0

    @property
    def rate(self) -> float:
        return self.count / self.seconds

    @property
    def cost(self) -> float:
        """Microseconds of work a job."""
        return 1e6 * self.busy_seconds / max(1, self.count)


@dataclass
class Load:
    """One producer and one taker; when each batch was done, and what it had cost by then."""

    url: str
    taker: Taker
    done_at: list[tuple[float, int, float]] = field(default_factory=list)
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
                self.done_at.append((time.monotonic(), len(jobs), busy_seconds(conn)))

    @property
    def done_count(self) -> int:
        return sum(count for _, count, _ in self.done_at[:])

    def run(self, seconds: float) -> list[Third]:
        """The first, second and last third of the time."""
        started = time.monotonic()
        with ThreadPoolExecutor(2) as pool:
            doing = [pool.submit(self.produce), pool.submit(self.work)]
            while time.monotonic() < started + seconds and not any(f.done() for f in doing):
                self.stop.wait(0.1)
            self.stop.set()
            for future in doing:
                future.result(60)
        return self._thirds(started, seconds / 3)

    def _thirds(self, started: float, seconds: float) -> list[Third]:
        thirds, before = [Third(seconds) for _ in range(3)], self.done_at[0][2]
        for at, count, busy in self.done_at:
            third = thirds[min(2, int((at - started) / seconds))]
            third.count += count
            third.busy_seconds += busy - before
            before = busy
        return thirds


def busy_seconds(conn: Connection) -> float:
    """What the taker's process in the server has worked so far: what else the machine does, which
    may come and go, does not count. By the clock, where the server is elsewhere."""
    try:
        found = Path(f"/proc/{conn.info.backend_pid}/stat").read_text()
    except FileNotFoundError:
        return time.monotonic()
    user, system = found.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def dead_tuples(conn: Connection) -> int:
    """Every update and deletion since the statistics were made, and the rows still there."""
    conn.execute("select pg_stat_force_next_flush()")
    row = conn.execute(
        "select n_dead_tup from pg_stat_user_tables where relid = 'milepost.jobs'::regclass"
    )
    return int(one(row.fetchone())[0])


@pytest.mark.soak
@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("max_concurrency", [None, 1000])
def test_a_held_snapshot_does_not_make_the_queue_collapse(
    url: str,
    conn: Connection,
    max_concurrency: int | None,
    record_property: Callable[[str, object], None],
    capsys: pytest.CaptureFixture[str],
    figures: Figures,
) -> None:
    if max_concurrency:
        for n in range(CHANNELS):
            set_channel(conn, f"channel{n}", Policy(max_concurrency))
    # For comparison only, and not in the suite: a slow look is never slow enough for hints.
    is_hinted = os.environ.get("MILEPOST_BLOAT_HINTS", "on") == "on"
    rotation = Rotation() if is_hinted else Rotation(slow_seconds=float("inf"))
    load = Load(url, Taker(rotation=rotation))
    with held_snapshot(url):
        thirds = load.run(LOAD_SECONDS)
        dead = dead_tuples(conn)
    record_property("jobs_per_second", [round(third.rate) for third in thirds])
    record_property("microseconds_per_job", [round(third.cost) for third in thirds])
    record_property("dead_tuples", dead)
    figures(messages=load.done_count)
    with capsys.disabled():
        rates = ", ".join(f"{third.rate:,.0f}" for third in thirds)
        costs = ", ".join(f"{third.cost:,.0f}" for third in thirds)
        print(  # noqa: T201
            f"\n{LOAD_SECONDS:.0f} s under a held snapshot, max_concurrency {max_concurrency}: "
            f"{rates} jobs/s by thirds, {costs} us a job, {dead:,} dead tuples"
        )
    assert dead > load.done_count, "the snapshot was not held"
    assert thirds[2].cost <= 2 * thirds[0].cost
