"""Every job done, each completion once, no limit ever passed, whoever is killed when; and the same
harness finds it as soon as the lock on a channel's policy is taken out."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from milepost import Job, Milepost, Rate, TakenJob
from milepost.db import Connection
from milepost.queue.worker.rotation import Rotation
from tests.chaos.options import SECONDS, TIMEOUT_SECONDS, new_seed
from tests.chaos.queue.fleet import Fleet, held_spans, limits, prepare
from tests.chaos.queue.history import Limit, most_at_once, too_fast, too_many, too_soon
from tests.integration.queue.sabotage import take_out
from tests.integration.queue.worker.working import PATIENCE_SECONDS, working
from tests.soak import Figures
from tests.waiting import wait_until

JOBS = max(5_000, int(500 * SECONDS))
CHANNELS = 50
SABOTAGED_JOBS = 2_000
FAMILY_JOBS = 1_000  # ten seconds at its rate
pytestmark = pytest.mark.parametrize("order", ["append"])


@pytest.mark.soak
@pytest.mark.timeout(TIMEOUT_SECONDS + 200)
def test_a_fleet_does_every_job_within_the_limits_though_workers_are_killed(
    mp: Milepost, url: str, conn: Connection, tmp_path: Path, figures: Figures
) -> None:
    seed = new_seed()
    channels = limits(CHANNELS, random.Random(seed))
    ids = prepare(mp, conn, channels, JOBS)
    fleet = Fleet(url, tmp_path, seed)
    fleet.run(conn, JOBS, pause_seconds=1.0, limit_seconds=TIMEOUT_SECONDS)

    handled = fleet.spans()
    held = held_spans(conn)
    completions = conn.execute("select job from held where is_done").fetchall()
    effects = conn.execute("select job from effects").fetchall()
    names = list(channels)
    in_transaction = [
        id_ for n, id_ in enumerate(ids) if not names[n % CHANNELS].startswith("plain.")
    ]
    sys.stdout.write(
        f"{fleet.kills} kills, {len(handled) - JOBS} attempts more than jobs, {len(held)} takes\n"
    )
    done = [job for (job,) in completions]
    figures(
        messages=JOBS,
        kills=fleet.kills,
        lost=len(set(ids) - set(done)),
        doubled=len(done) - len(set(done)),
    )
    assert fleet.kills > 3
    assert {span.job for span in handled} == set(ids)
    assert sorted(done) == sorted(ids)
    assert sorted(job for (job,) in effects) == in_transaction
    assert too_many(held, channels) == {}
    assert too_soon(held, channels) == {}
    assert too_many(handled, channels) == {}


@pytest.mark.soak
@pytest.mark.timeout(200)
def test_without_the_lock_on_a_channel_the_limits_are_passed(
    mp: Milepost, url: str, conn: Connection, tmp_path: Path
) -> None:
    channels = {f"plain.{n}": Limit(max_concurrency=1) for n in range(3)}
    prepare(mp, conn, channels, SABOTAGED_JOBS)
    take_out(conn, "channel lock")
    fleet = Fleet(url, tmp_path, new_seed(), size=4)
    fleet.run(conn, SABOTAGED_JOBS, pause_seconds=30.0, limit_seconds=100)
    assert too_many(held_spans(conn), channels)


@pytest.mark.soak
@pytest.mark.timeout(TIMEOUT_SECONDS + 200)
@pytest.mark.parametrize("guard", [None, "family lock"])
def test_a_fleet_keeps_the_limits_of_a_family_though_workers_are_killed(
    mp: Milepost, url: str, conn: Connection, tmp_path: Path, guard: str | None
) -> None:
    """New channels of it, too: none has a row when the fleet starts."""
    channels = {f"plain.{n}": Limit(max_concurrency=2) for n in range(8)}
    prepare(mp, conn, dict.fromkeys(channels, Limit()), FAMILY_JOBS)
    rate = Rate(100, burst=5)
    mp.set_channel("plain.*", max_concurrency=2, max_concurrency_total=6, rate=rate)
    if guard:
        take_out(conn, guard)
    fleet = Fleet(url, tmp_path, new_seed(), size=4)
    fleet.run(conn, FAMILY_JOBS, pause_seconds=2.0, limit_seconds=TIMEOUT_SECONDS)
    held = held_spans(conn)
    assert len({span.job for span in held}) == FAMILY_JOBS
    assert (most_at_once(held) > 6) is (guard is not None)
    assert too_many(held, channels) == {}
    assert too_fast(held, rate.count, rate.burst) == {}


def test_a_fresh_channel_waits_for_one_rotation_at_most(
    mp: Milepost, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of a fresh channel, put while 20,000 wait in another one. The handlers rest while it is
    put: how many are done in that time would be a matter of chance."""
    # So would whether a look is slow, and the worker goes by hints, on a machine that is busy.
    monkeypatch.setattr(Rotation, "_is_slow", lambda *_: False)
    batch = 100
    order: list[str] = []
    overtaken: list[int] = []
    goes_on = threading.Event()
    goes_on.set()

    @mp.worker("*", concurrency=4, batch=batch)
    def handle(job: TakenJob) -> None:
        assert goes_on.wait(PATIENCE_SECONDS)
        order.append(job.channel)
        if job.channel != "backlog":
            goes_on.clear()

    mp.put(conn, *(Job("backlog", n) for n in range(20_000)))
    with working(handle):
        wait_until(lambda: len(order) > 500)
        for number in range(10):
            goes_on.clear()
            mp.put(conn, Job(f"fresh-{number}"))
            before = len(order)
            goes_on.set()
            wait_until(lambda n=number: f"fresh-{n}" in order)  # type: ignore[misc]
            overtaken.append(order.index(f"fresh-{number}") - before)
        assert Counter(order)["backlog"] < 20_000, "the backlog was gone too soon to tell"
        goes_on.set()
    sys.stdout.write(f"overtaken by {overtaken} jobs of the backlog\n")
    # What was taken already, twice a batch, and one more take.
    assert max(overtaken) <= 4 * batch
