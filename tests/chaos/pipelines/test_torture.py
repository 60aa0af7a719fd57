"""Every message exactly once in two sinks, though the driver of their pipelines is killed again and
again, alone or with its Java; and the same comparison finds what is doubled where the checkpoint is
stored without comparing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from milepost import Milepost
from milepost.db import Connection
from tests.chaos.options import TIMEOUT_SECONDS, new_seed
from tests.chaos.pipelines.driving import (
    START_SECONDS,
    Orders,
    Processes,
    count_of,
    far_behind,
    kill_drivers,
)
from tests.chaos.pipelines.names import EACH, SUMS
from tests.chaos.processors.sabotage import STORE_WITHOUT_COMPARING
from tests.pipeline.running import expected_per_customer, place, rows
from tests.soak import Figures
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(TIMEOUT_SECONDS + 900),
    pytest.mark.parametrize("order", ["append"]),
]


def test_every_message_counts_once_though_drivers_are_killed(
    mp: Milepost, url: str, tmp_path: Path, figures: Figures
) -> None:
    is_enough = far_behind(lambda: count_of(mp, "each_order"))
    orders = Orders(mp, random.Random(new_seed()), is_enough)
    kills = kill_drivers(orders, Processes(url, tmp_path), (EACH, SUMS))
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
    words = ("run", "stopped", EACH, SUMS)
    one, other = (Processes(url, tmp_path / name) for name in ("one", "other"))
    with one.running(*words), other.running(*words):
        wait_until(lambda: count_of(mp, "each_order") > 3_000, START_SECONDS)
