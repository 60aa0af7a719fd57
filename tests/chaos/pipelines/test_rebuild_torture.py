"""Rebuilds that are killed again and again, while orders are appended and a driver, which is killed
too, writes the old version. The target is right at every moment, and nothing is lost or doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from milepost import Milepost
from tests.chaos.options import SECONDS, TIMEOUT_SECONDS, new_seed
from tests.chaos.pipelines.names import ROOT
from tests.chaos.pipelines.rebuilt import DISTINCT, SUMS
from tests.pipeline.running import expected_per_customer, place, rows
from tests.soak import Figures
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(2 * TIMEOUT_SECONDS + 600),
    pytest.mark.parametrize("order", ["append"]),
]
START_SECONDS = 180.0  # for two Sparks on a busy machine
FEWEST_KILLS = 3  # however slow the machine
MOST_ORDERS = 6_000  # a busy machine must be able to fill them again
MOST_WITH_STATE = 3_000  # whose batches take seconds
CUSTOMERS = "select customer, total, orders from sums order by customer"


@dataclass
class Orders:
    """Appends orders 0, 1, 2 ... in transactions of random sizes."""

    mp: Milepost
    rng: random.Random
    most: int = MOST_ORDERS
    count: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.stop.wait(self.rng.uniform(0.1, 0.5)):
            if self.count < self.most:
                size = self.rng.randint(1, 30)
                place(self.mp, self.count, size)
                self.count += size


@dataclass
class Onlooker:
    """Reads the target all the time: it shows a prefix of the log, and never an earlier one."""

    mp: Milepost
    looks: int = 0
    newest: int = 0
    wrong: list[object] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with self.mp.connect() as conn:
            while not self.stop.wait(0.05):
                if conn.execute("select to_regclass('sums')").fetchone() == (None,):
                    continue
                found = conn.execute(CUSTOMERS.encode()).fetchall()
                count = sum(row[2] for row in found)
                if count < self.newest or found != expected_per_customer(count):
                    self.wrong.append((self.newest, found))
                self.newest, self.looks = count, self.looks + 1


@contextmanager
def in_thread(worker: Orders | Onlooker) -> Iterator[None]:
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop.set()
        thread.join()


@dataclass
class Processes:
    """Of the application, each in a session of its own, so that its Java can be killed with it."""

    url: str
    directory: Path

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        variables = {"MILEPOST_URL": self.url, "MILEPOST_SPARK_DIR": self.directory.as_uri()}
        return subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.pipelines.rebuilt", *words],
            cwd=ROOT,
            env=os.environ | variables,
            start_new_session=True,
        )

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        process = self.start(*words)
        try:
            yield process
        finally:
            kill(process)

    def finish(self, *words: str) -> None:
        with self.running(*words) as process:
            assert process.wait(START_SECONDS + 120) == 0


def kill(process: subprocess.Popen[bytes], *, is_alone: bool = False) -> None:
    """Alone: its Java notices a moment later, and its tasks may still copy."""
    with suppress(ProcessLookupError):  # where all of it has ended
        if is_alone:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def moves(mp: Milepost, name: str) -> dict[int, int]:
    """The checkpoints of all versions."""
    with mp.connect() as conn:
        found = conn.execute(
            "select version, position from milepost.checkpoints where processor = %s", [name]
        )
        return dict(found.fetchall())


def active(mp: Milepost, name: str) -> int | None:
    with mp.connect() as conn:
        found = conn.execute(
            "select version from milepost.pipelines where is_active and name = %s", [name]
        ).fetchone()
        return None if found is None else int(found[0])


def wait_for_rebuild(mp: Milepost, name: str, process: subprocess.Popen[bytes]) -> bool:
    """Until it has written something. Whether it still runs."""
    before, shown = moves(mp, name), active(mp, name)

    def has_moved() -> bool:
        if process.poll() is not None:
            assert process.returncode == 0, "the rebuild failed"
            return True
        now = {v: at for v, at in moves(mp, name).items() if v != active(mp, name)}
        return active(mp, name) != shown or any(before.get(v) != at for v, at in now.items())

    wait_until(has_moved, START_SECONDS, look_seconds=0.1)
    return process.poll() is None


def test_a_stateful_rebuild_that_is_killed_writes_each_row_once(
    mp: Milepost, url: str, tmp_path: Path, figures: Figures
) -> None:
    rng = random.Random(new_seed())
    processes, orders, kills = Processes(url, tmp_path), Orders(mp, rng, MOST_WITH_STATE), 0
    place(mp, 0, 1_000)
    orders.count = 1_000
    with in_thread(orders):
        end = time.monotonic() + SECONDS
        while kills < FEWEST_KILLS or time.monotonic() < end:
            with processes.running("rebuild", DISTINCT) as process:
                if wait_for_rebuild(mp, DISTINCT, process):
                    time.sleep(rng.uniform(0.0, 3.0))
                    kill(process, is_alone=rng.random() < 0.5)
                    kills += 1
    processes.finish("rebuild", DISTINCT)
    processes.finish("run", "caught_up", DISTINCT)
    numbers = [int(str(row[0])) for row in rows(mp, "select total from each_once")]
    figures(
        messages=orders.count,
        kills=kills,
        lost=orders.count - len(set(numbers)),
        doubled=len(numbers) - len(set(numbers)),
    )
    assert sorted(numbers) == list(range(orders.count))


def test_a_swap_is_right_at_every_moment_though_driver_and_rebuild_are_killed(
    mp: Milepost, url: str, tmp_path: Path, figures: Figures
) -> None:
    rng = random.Random(new_seed())
    processes, orders, onlooker = Processes(url, tmp_path), Orders(mp, rng), Onlooker(mp)
    place(mp, 0, 1_000)
    orders.count, kills, swaps = 1_000, 0, 0
    driver = processes.start("run", "stopped", SUMS)
    try:
        # A rebuild that came first would leave no version for a driver until it has finished.
        wait_until(lambda: active(mp, SUMS) is not None, START_SECONDS, look_seconds=0.1)
        with in_thread(orders), in_thread(onlooker):
            end = time.monotonic() + SECONDS
            while kills < FEWEST_KILLS or swaps < 1 or time.monotonic() < end:
                shown = active(mp, SUMS)
                with processes.running("rebuild", SUMS) as rebuild:
                    wait_for_rebuild(mp, SUMS, rebuild)
                    time.sleep(rng.uniform(0.0, 1.0))
                    victim = rng.choice(["driver", "rebuild", "none"])
                    if victim == "driver":
                        kill(driver, is_alone=rng.random() < 0.5)
                        driver = processes.start("run", "stopped", SUMS)
                    if victim == "rebuild" and rebuild.poll() is None:
                        kill(rebuild, is_alone=rng.random() < 0.5)
                    else:
                        assert rebuild.wait(START_SECONDS) == 0
                    kills += victim != "none"
                swaps += active(mp, SUMS) != shown
                assert driver.poll() is None, "the driver ended by itself"
    finally:
        kill(driver)
    processes.finish("run", "caught_up", SUMS)
    found = rows(mp, CUSTOMERS)
    figures(messages=orders.count, kills=kills, lost=0, doubled=0)
    assert found == expected_per_customer(orders.count)
    assert (onlooker.wrong, onlooker.looks > 0, swaps > 0) == ([], True, True)
    assert rows(mp, "select count(*) from milepost.pipelines where is_active") == [(1,)]
