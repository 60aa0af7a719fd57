"""Which channels are slow, by looks at what runs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from milepost.queue.worker.rates import MOST_CHANNELS, Rates
from milepost.records import TakenJob


def rates() -> Rates:
    return Rates(report_seconds=5.0, slow_seconds=0.01, owner="me")


def jobs(channel: str, number: int) -> list[TakenJob]:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    return [
        TakenJob(id_, channel, 1, 0, 25, 0, at, b"null", None, None, is_kept=False)
        for id_ in range(number)
    ]


def looked(noted: Rates, running: list[TakenJob], since: float, until: float) -> None:
    for number in range(round((until - since) * 20) + 1):
        noted.look(set(running), since + number / 20)


def test_a_job_that_runs_takes_as_long_as_it_has_taken_until_now() -> None:
    noted = rates()
    looked(noted, jobs("slow", 4), 100.0, 100.2)
    assert noted.slow == {"slow": pytest.approx(0.2, rel=0.1)}


def test_jobs_that_end_between_two_looks_are_quick() -> None:
    noted = rates()
    for number in range(20):
        running = jobs("c", 4)
        noted.look(set(running), 100.0 + number / 20)
        noted.done(running)
    assert noted.slow == {}


def test_a_slow_job_among_many_quick_ones_makes_no_slow_channel() -> None:
    noted = rates()
    (slow,) = jobs("c", 1)
    looked(noted, [slow], 100.0, 100.1)
    assert noted.slow == {"c": pytest.approx(0.1, rel=0.1)}
    noted.done(jobs("c", 50))
    noted.look(set(), 100.15)
    assert noted.slow == {}


def test_a_channel_stays_slow_while_its_jobs_are_and_is_forgotten_later() -> None:
    noted = rates()
    for number in range(5):
        running = jobs("slow", 4)
        looked(noted, running, 100.0 + number, 100.95 + number)
        noted.done(running)
    assert noted.slow == {"slow": pytest.approx(1.0, rel=0.3)}
    looked(noted, [], 105.0, 106.0)
    assert noted.slow == {"slow": pytest.approx(1.0, rel=0.3)}
    looked(noted, [], 106.0, 180.0)
    assert noted.slow == {}


def test_so_many_channels_are_remembered() -> None:
    noted = rates()
    running = [jobs(f"c{number}", 1)[0] for number in range(MOST_CHANNELS + 1)]
    looked(noted, running, 100.0, 100.2)
    assert len(noted.slow) == MOST_CHANNELS
