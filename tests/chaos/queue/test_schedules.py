"""Every tick of a schedule is put once and never early, whichever scheduler is killed, frozen or
cut off; and the same harness finds it as soon as the lock of a tick is taken out. How late depends
on the machine: it is printed."""

from __future__ import annotations

import random
import sys
import time

import pytest

from milepost import Milepost
from milepost.db import Connection
from tests.chaos.options import SECONDS, TIMEOUT_SECONDS, new_seed
from tests.integration.queue.sabotage import take_out
from tests.integration.queue.schedules.fleet import Harm, fleet_of
from tests.integration.queue.schedules.scheduling import put_jobs
from tests.soak import Figures
from tests.waiting import wait_until

HARMS: tuple[Harm, ...] = ("kill", "freeze", "cut off")
pytestmark = [pytest.mark.parametrize("order", ["append"]), pytest.mark.soak]


@pytest.mark.timeout(TIMEOUT_SECONDS + 200)
def test_each_tick_is_put_once_and_never_early_though_schedulers_are_killed(
    mp: Milepost, url: str, conn: Connection, figures: Figures
) -> None:
    chance, end_at = random.Random(new_seed()), time.monotonic() + SECONDS
    with fleet_of(3, url, conn) as fleet:
        while time.monotonic() < end_at or fleet.harms < len(HARMS):
            fleet.harm(chance.choice(HARMS))
    missing, late = fleet.ticks() - put_jobs(conn), fleet.lateness()
    figures(
        messages=fleet.ticks(), kills=fleet.harms, lost=max(missing, 0), doubled=max(-missing, 0)
    )
    sys.stdout.write(f"{fleet.harms} harms, {len(late)} ticks, late by {max(late):.3f} s at most\n")
    assert missing == 0
    assert min(late) >= 0.0


@pytest.mark.timeout(200)
def test_without_the_lock_of_a_tick_some_are_put_twice(
    mp: Milepost, url: str, conn: Connection
) -> None:
    take_out(conn, "tick's lock")
    with fleet_of(3, url, conn) as fleet:
        wait_until(lambda: put_jobs(conn) > fleet.ticks())
