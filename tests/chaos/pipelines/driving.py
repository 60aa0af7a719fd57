"""Processes that run pipelines and are killed, and orders that are appended meanwhile."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from psycopg import sql

from milepost import Milepost
from milepost.db import one
from tests.chaos import killing
from tests.chaos.options import SECONDS
from tests.pipeline.rebuilding import in_thread
from tests.pipeline.running import place, rows
from tests.waiting import wait_until

FEWEST_KILLS = 2  # however slow the machine
LAST_SECONDS = 600.0
START_SECONDS = 300.0  # for two Sparks on a busy machine
MOST_BEHIND = 2_000  # messages: a writer without a limit would leave more than Spark can catch up
INSTANCE = "tests.chaos.pipelines.instance"


@dataclass
class Orders:
    """Appends orders 0, 1, 2 ... in transactions of random sizes, each of them `times` times. Waits
    while it has appended enough."""

    mp: Milepost
    rng: random.Random
    is_enough: Callable[[int], bool]
    times: int = 1
    longest_pause: float = 0.1
    count: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.stop.wait(self.rng.uniform(0, self.longest_pause)):
            if not self.is_enough(self.count):
                self.append(self.rng.randint(1, 60))

    def append(self, size: int) -> None:
        for _ in range(self.times):
            place(self.mp, self.count, size)
        self.count += size


def far_behind(written: Callable[[], int]) -> Callable[[int], bool]:
    """Whether more than MOST_BEHIND orders are not written yet."""
    return lambda count: count - written() >= MOST_BEHIND


@dataclass(frozen=True)
class Processes:
    """Of the application."""

    url: str
    directory: Path  # Spark's

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        variables = {"MILEPOST_URL": self.url, "MILEPOST_SPARK_DIR": self.directory.as_uri()}
        return killing.start((INSTANCE, *words), variables)

    def running(self, *words: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
        return killing.killed_at_the_end(self.start(*words))

    def finish(self, *words: str) -> None:
        with self.running(*words) as process:
            assert process.wait(LAST_SECONDS) == 0


def kill_drivers(orders: Orders, processes: Processes, names: Sequence[str]) -> int:
    """Again and again, each after all of its pipelines have done something, alone or with its Java,
    while orders are appended. How many were killed; then another one has caught up."""
    rng, kills, end = orders.rng, 0, time.monotonic() + SECONDS
    with in_thread(orders):
        while kills < FEWEST_KILLS or time.monotonic() < end:
            with processes.running("run", "stopped", *names) as driver:
                wait_for_progress(orders.mp, driver, names)
                time.sleep(rng.uniform(0.0, 2.0))
                killing.kill(driver, is_alone=rng.random() < 0.5)
            kills += 1
    processes.finish("run", "caught_up", *names)
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
    if not exists(mp, table):
        return 0
    with mp.connect() as conn:
        query = sql.SQL("select count(*) from {}").format(sql.Identifier(table))
        return int(one(conn.execute(query).fetchone())[0])


def exists(mp: Milepost, table: str) -> bool:
    with mp.connect() as conn:
        return conn.execute("select to_regclass(%s)", [table]).fetchone() != (None,)
