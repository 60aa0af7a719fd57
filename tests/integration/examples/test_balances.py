"""Killed and frozen in between, and nothing is lost or counted twice.

With the epoch taken out of the names of the files, a freeze loses deposits: the last test but one.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from milepost import FileStore, Milepost, db
from tests.integration.examples.moments import MOMENTS, WENT_ON
from tests.integration.examples.running import Place, output_of
from tests.integration.processors.segments.claiming import expire_all
from tests.waiting import wait_until

PROGRAM = "python -m tests.integration.examples.freezing"
ROUNDS = 6


@pytest.fixture
def place(url: str, tmp_path: Path) -> Place:
    """Migrated: how a newcomer begins is what the tests of the other examples show."""
    return Place(url, tmp_path)


def test_balances_survive_a_kill(place: Place) -> None:
    total = deposit(place) + deposit(place)
    with place.start("milepost run examples.balances:mp") as process:
        try:
            wait_until(lambda: stored(place.url) > 0)
        finally:
            process.kill()
    with db.connect(place.url) as conn:
        expire_all(conn)
    total += deposit(place)
    place.said("milepost run examples.balances:mp --until caught_up")
    assert "balances: mode deferred" in place.said("milepost processors")
    assert place.said("python examples/balances.py").strip() == f"50 accounts hold {total}"


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_freeze_for_longer_than_the_claim_loses_nothing(place: Place, moment: str) -> None:
    freeze(place, moment)
    assert saved(place) == deposited(place)


def test_without_the_fence_the_same_freeze_loses_deposits(place: Place) -> None:
    """Or the tests above would prove nothing."""
    freeze(place, "while-saving", "unfenced")
    assert saved(place) != deposited(place)


def test_freezes_at_random_moments_lose_nothing(place: Place) -> None:
    chance = random.Random(16)
    with ExitStack() as stack:
        pair = [stack.enter_context(process(place, "never")) for _ in range(2)]
        for _ in range(ROUNDS):
            deposit(place, 100)
            frozen, other = chance.sample(pair, 2)
            Event().wait(chance.uniform(0, 0.3))  # any moment
            frozen.send_signal(signal.SIGSTOP)
            wait_until(partial(has_segments, place, other, 4))
            deposit(place, 100)
            wait_until(lambda: min(checkpoints(place.url)) >= len(list(messages(place))))
            frozen.send_signal(signal.SIGCONT)
            wait_until(partial(has_segments, place, frozen, 1))
        for each in pair:
            stop(each)
    place.said(f"{PROGRAM} caught-up")
    assert saved(place) == deposited(place)


def freeze(place: Place, moment: str, *how: str) -> None:
    """One process is frozen, another one takes over, handles all there is and ends; then the first
    one goes on, and does what it was about to do."""
    deposit(place)
    words = " ".join(how)
    with process(place, f"{moment} {words}") as frozen:
        wait_until(lambda: is_stopped(frozen))
        deposit(place)
        place.said(f"{PROGRAM} caught-up {words}")
        frozen.send_signal(signal.SIGCONT)
        wait_until((place.directory / WENT_ON).exists)
        stop(frozen)
    place.said(f"{PROGRAM} caught-up {words}")


@contextmanager
def process(place: Place, how: str) -> Iterator[subprocess.Popen[str]]:
    with place.start(f"{PROGRAM} {how}") as started:
        try:
            yield started
        finally:
            started.kill()


def stop(running: subprocess.Popen[str]) -> None:
    running.send_signal(signal.SIGINT)
    output_of(running)


def is_stopped(running: subprocess.Popen[str]) -> bool:
    found = os.waitid(os.P_PID, running.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
    assert running.returncode is None
    return found is not None


def has_segments(place: Place, running: subprocess.Popen[str], count: int) -> bool:
    """So many at least. An owner's name holds its process id."""
    with db.connect(place.url) as conn:
        owners = conn.execute(
            "select owner from milepost.segments where claimed_until > clock_timestamp()"
        ).fetchall()
    return sum(f":{running.pid}:" in owner for (owner,) in owners) >= count


def messages(place: Place) -> Iterator[tuple[str, int]]:
    for message in Milepost(place.url).read():
        yield str(message.key), message.data["amount"]


def deposited(place: Place) -> dict[str, int]:
    amounts: Counter[str] = Counter()
    for account, amount in messages(place):
        amounts[account] += amount
    return dict(amounts)


def saved(place: Place) -> dict[str, int]:
    return FileStore(place.directory / "balances-saved").read().entries


def deposit(place: Place, count: int = 500) -> int:
    output = place.said(f"python examples/balances.py {count}")
    found = re.fullmatch(rf"{count} deposits, (\d+) in all", output.strip())
    assert found is not None, output
    return int(found[1])


def stored(url: str) -> int:
    return max(checkpoints(url), default=0)


def checkpoints(url: str) -> list[int]:
    with db.connect(url) as conn:
        rows = conn.execute('select "position" from milepost.checkpoints').fetchall()
    return [position for (position,) in rows]
