"""Rebuilds that are killed again and again, while orders are appended and a driver, which is killed
too, writes the old version. The target is right at every moment, and nothing is lost or doubled.

What an onlooker sees without the comparisons, tests/pipeline/rebuild/test_rebuild_live.py shows."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest

from milepost import Milepost
from tests.chaos.killing import kill
from tests.chaos.options import SECONDS, TIMEOUT_SECONDS, new_seed
from tests.chaos.pipelines.driving import START_SECONDS, Orders, Processes, exists
from tests.chaos.pipelines.names import FIRSTS, SUMS
from tests.pipeline.rebuilding import Onlooker, in_thread
from tests.pipeline.running import expected_per_customer, rows
from tests.soak import Figures
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(2 * TIMEOUT_SECONDS + 600),
    pytest.mark.parametrize("order", ["append"]),
]
FEWEST_KILLS = 3  # however slow the machine
MOST_ORDERS = 6_000  # a busy machine must be able to fill them again
MOST_WITH_STATE = 3_000  # whose batches take seconds
CUSTOMERS = "select customer, total, orders from sums order by customer"


def orders_up_to(mp: Milepost, rng: random.Random, most: int) -> Orders:
    orders = Orders(mp, rng, lambda count: count >= most, longest_pause=1.0)
    orders.append(1_000)
    return orders


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
    processes, orders, kills = Processes(url, tmp_path), orders_up_to(mp, rng, MOST_WITH_STATE), 0
    with in_thread(orders):
        end = time.monotonic() + SECONDS
        while kills < FEWEST_KILLS or time.monotonic() < end:
            with processes.running("rebuild", FIRSTS) as process:
                if wait_for_rebuild(mp, FIRSTS, process):
                    time.sleep(rng.uniform(0.0, 3.0))
                    kill(process, is_alone=rng.random() < 0.5)
                    kills += 1
    processes.finish("rebuild", FIRSTS)
    processes.finish("run", "caught_up", FIRSTS)
    numbers = [int(str(row[0])) for row in rows(mp, "select total from firsts")]
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
    processes, onlooker, kills, swaps = Processes(url, tmp_path), Onlooker(mp, CUSTOMERS), 0, 0
    orders = orders_up_to(mp, rng, MOST_ORDERS)
    driver = processes.start("run", "stopped", SUMS)
    try:
        # A rebuild that came first would leave no version for a driver until it has finished.
        wait_until(lambda: exists(mp, SUMS), START_SECONDS, look_seconds=0.1)
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
                        kills += 1
                    if victim == "rebuild" and rebuild.poll() is None:
                        kill(rebuild, is_alone=rng.random() < 0.5)
                        kills += 1
                    else:
                        assert rebuild.wait(START_SECONDS) == 0
                swaps += active(mp, SUMS) != shown
                assert driver.poll() is None, "the driver ended by itself"
    finally:
        kill(driver)
    processes.finish("run", "caught_up", SUMS)
    found = rows(mp, CUSTOMERS)
    figures(messages=orders.count, kills=kills, lost=0, doubled=0)
    assert found == expected_per_customer(orders.count)
    assert (onlooker.wrong, onlooker.seen != [], swaps > 0) == ([], True, True)
    assert rows(mp, "select count(*) from milepost.pipelines where is_active") == [(1,)]
