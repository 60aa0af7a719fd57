"""Drivers of pipelines in processes of their own, and orders that are appended meanwhile."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from psycopg import sql

from milepost import Milepost
from milepost.db import one
from tests.chaos.options import SECONDS
from tests.chaos.pipelines.names import ROOT
from tests.pipeline.running import place, rows
from tests.waiting import wait_until

FEWEST_KILLS = 2  # however slow the machine
LAST_SECONDS = 600.0
START_SECONDS = 300.0  # for a Spark on a busy machine
MOST_BEHIND = 2_000  # messages: a writer without a limit would leave more than Spark can catch up
INSTANCE = "tests.chaos.pipelines.instance"


@dataclass
class Orders:
    """Appends orders 0, 1, 2 ... in transactions of random sizes, in a thread of its own. Each of
    them `times` times; waits while more than MOST_BEHIND are not written yet."""

    mp: Milepost
    rng: random.Random
    written: Callable[[], int]
    times: int = 1
    count: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def write(self) -> None:
        while not self.stop.wait(self.rng.uniform(0, 0.1)):
            if self.count - self.written() < MOST_BEHIND:
                size = self.rng.randint(1, 60)
                for _ in range(self.times):
                    place(self.mp, self.count, size)
                self.count += size

    @contextmanager
    def being_written(self) -> Iterator[None]:
        thread = threading.Thread(target=self.write)
        thread.start()
        try:
            yield
        finally:
            self.stop.set()
            thread.join()


@dataclass(frozen=True)
class Drivers:
    """Of some pipelines of a module."""

    url: str
    directory: Path  # Spark's
    names: Sequence[str]
    module: str = INSTANCE


@contextmanager
def driver(drivers: Drivers, until: str = "stopped") -> Iterator[subprocess.Popen[bytes]]:
    """In a session of its own, so that its Java can be killed with it."""
    place = drivers.directory.as_uri()
    variables = {"MILEPOST_URL": drivers.url, "MILEPOST_SPARK_DIR": place}
    process = subprocess.Popen(
        [sys.executable, "-m", drivers.module, until, *drivers.names],
        cwd=ROOT,
        env=os.environ | variables,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _kill_all(process)


def kill_again_and_again(orders: Orders, drivers: Drivers) -> int:
    """Drivers, each after all of its pipelines have done something, alone or with their Java, while
    orders are written. How many were killed; then another one has caught up."""
    rng, kills, end = orders.rng, 0, time.monotonic() + SECONDS
    with orders.being_written():
        while kills < FEWEST_KILLS or time.monotonic() < end:
            with driver(drivers) as process:
                wait_for_progress(orders.mp, process, drivers.names)
                time.sleep(rng.uniform(0.0, 2.0))
                if rng.random() < 0.5:
                    process.kill()  # its Java notices a moment later; its tasks may still write
                    process.wait()
            kills += 1
    with driver(drivers, "caught_up") as last:
        assert last.wait(LAST_SECONDS) == 0
    return kills


def wait_for_progress(mp: Milepost, process: subprocess.Popen[bytes], names: Sequence[str]) -> None:
    """Of all these pipelines: a driver that is killed before it does anything proves little."""
    before = positions(mp)

    def has_moved() -> bool:
        assert process.poll() is None, "the driver ended by itself"
        now = positions(mp)
        return all(now.get(name) not in (None, before.get(name, 0)) for name in names)

    wait_until(has_moved, START_SECONDS, look_seconds=0.1)


def positions(mp: Milepost) -> dict[object, object]:
    return dict(rows(mp, "select processor, position from milepost.checkpoints"))  # type: ignore[arg-type]  # pairs


def count_of(mp: Milepost, table: str) -> int:
    """Of its rows; 0 before it is made."""
    with mp.connect() as conn:
        if conn.execute("select to_regclass(%s)", [table]).fetchone() == (None,):
            return 0
        query = sql.SQL("select count(*) from {}").format(sql.Identifier(table))
        return int(one(conn.execute(query).fetchone())[0])


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # where all of it has ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
