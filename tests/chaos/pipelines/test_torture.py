"""Every message exactly once in two sinks, though the driver of their pipelines is killed again and
again, alone or with its Java; and the same comparison finds what is doubled where the checkpoint is
stored without comparing."""

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
from milepost.db import Connection, one
from tests.chaos.options import SECONDS, TIMEOUT_SECONDS, new_seed
from tests.chaos.pipelines.names import EACH, ROOT, SUMS
from tests.chaos.processors.sabotage import STORE_WITHOUT_COMPARING
from tests.pipeline.running import expected_per_customer, place, rows
from tests.soak import Figures
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(TIMEOUT_SECONDS + 300),
    pytest.mark.parametrize("order", ["append"]),
]
START_SECONDS = 120.0  # for a Spark on a busy machine
FEWEST_KILLS = 2  # however slow the machine
MOST_BEHIND = 2_000  # messages: a writer without a limit would leave more than Spark can catch up


@dataclass
class Orders:
    """Appends orders 0, 1, 2 ... in transactions of random sizes, in a thread of its own."""

    mp: Milepost
    rng: random.Random
    count: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def write(self) -> None:
        while not self.stop.wait(self.rng.uniform(0, 0.1)):
            if self.count - _written(self.mp) < MOST_BEHIND:
                size = self.rng.randint(1, 60)
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


@contextmanager
def driver(url: str, directory: Path, until: str = "stopped") -> Iterator[subprocess.Popen[bytes]]:
    """In a session of its own, so that its Java can be killed with it."""
    variables = {"MILEPOST_URL": url, "MILEPOST_SPARK_DIR": directory.as_uri()}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.pipelines.instance", until],
        cwd=ROOT,
        env=os.environ | variables,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _kill_all(process)


def test_every_message_counts_once_though_drivers_are_killed(
    mp: Milepost, url: str, tmp_path: Path, figures: Figures
) -> None:
    rng = random.Random(new_seed())
    orders, kills = Orders(mp, rng), 0
    with orders.being_written():
        end = time.monotonic() + SECONDS
        while kills < FEWEST_KILLS or time.monotonic() < end:
            with driver(url, tmp_path) as process:
                _wait_for_progress(mp, process)
                time.sleep(rng.uniform(0.0, 2.0))
                if rng.random() < 0.5:
                    process.kill()  # its Java notices a moment later; its tasks may still copy
                    process.wait()
            kills += 1
    _catch_up(url, tmp_path)
    numbers = [int(str(row[0])) for row in rows(mp, "select total from each_order")]
    figures(
        messages=orders.count,
        kills=kills,
        lost=orders.count - len(set(numbers)),
        doubled=len(numbers) - len(set(numbers)),
    )
    assert sorted(numbers) == list(range(orders.count))
    found = rows(mp, "select customer, total, orders from sums order by customer")
    assert found == expected_per_customer(orders.count)


def test_storing_without_comparing_doubles_rows(
    mp: Milepost, url: str, conn: Connection, tmp_path: Path
) -> None:
    """Two drivers of the same pipelines, which only the checkpoint keeps apart."""
    place(mp, 0, 3_000)
    conn.execute(STORE_WITHOUT_COMPARING)
    with driver(url, tmp_path / "one"), driver(url, tmp_path / "other"):
        wait_until(lambda: _written(mp) > 3_000, START_SECONDS)


def _written(mp: Milepost) -> int:
    with mp.connect() as conn:
        if conn.execute("select to_regclass('each_order')").fetchone() == (None,):
            return 0
        return int(one(conn.execute("select count(*) from each_order").fetchone())[0])


def _wait_for_progress(mp: Milepost, process: subprocess.Popen[bytes]) -> None:
    """Of both pipelines: a driver that is killed before it does anything proves little."""
    before = _positions(mp)

    def has_moved() -> bool:
        assert process.poll() is None, "the driver ended by itself"
        now = _positions(mp)
        return all(now.get(name) not in (None, before.get(name, 0)) for name in (EACH, SUMS))

    wait_until(has_moved, START_SECONDS, look_seconds=0.1)


def _positions(mp: Milepost) -> dict[object, object]:
    return dict(rows(mp, "select processor, position from milepost.checkpoints"))  # type: ignore[arg-type]  # pairs


def _catch_up(url: str, directory: Path) -> None:
    with driver(url, directory, "caught_up") as last:
        assert last.wait(300) == 0


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # where all of it has ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
