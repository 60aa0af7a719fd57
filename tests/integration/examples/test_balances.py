"""Killed in between, and nothing is lost or counted twice."""

from __future__ import annotations

import re

from milepost import db
from milepost.db import one
from tests.integration.examples.running import Place
from tests.waiting import wait_until


def test_balances_survive_a_kill(place: Place) -> None:
    place.said("milepost migrate")
    total = deposit(place) + deposit(place)
    with place.start("milepost run examples.balances:mp") as process:
        try:
            wait_until(lambda: stored(place.url) > 0)
        finally:
            process.kill()
    total += deposit(place)
    place.said("milepost run examples.balances:mp --until caught_up")
    assert "balances: mode deferred" in place.said("milepost processors")
    assert place.said("python examples/balances.py").strip() == f"50 accounts hold {total}"


def deposit(place: Place) -> int:
    output = place.said("python examples/balances.py 500")
    found = re.fullmatch(r"500 deposits, (\d+) in all", output.strip())
    assert found is not None, output
    return int(found[1])


def stored(url: str) -> int:
    with db.connect(url) as conn:
        row = conn.execute('select coalesce(max("position"), 0) from milepost.checkpoints')
        return int(one(row.fetchone())[0])
