from __future__ import annotations

import pytest

from milepost.records import Position
from tests.chaos.processors.report import Deposit, Outcome, Progress, compare

LOG = [Deposit(Position(0, n), f"account-{n % 2}", n) for n in range(1, 5)]
POSITIONS = [deposit.position for deposit in LOG]
BALANCES = {"account-0": 6, "account-1": 4}


def test_effects_that_equal_the_log_are_clean() -> None:
    outcome = compare(LOG, POSITIONS, BALANCES)
    assert outcome.is_clean
    assert outcome == Outcome(4, 4, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("effects", "figure"),
    [
        (POSITIONS[1:], "lost"),
        ([*POSITIONS, POSITIONS[-1]], "doubled"),
        ([*POSITIONS, Position(0, 9)], "made_up"),
        (POSITIONS[::-1], "out_of_order"),
    ],
)
def test_every_deviation_is_found(effects: list[Position], figure: str) -> None:
    outcome = compare(LOG, effects, BALANCES)
    assert not outcome.is_clean
    assert getattr(outcome, figure) > 0


@pytest.mark.parametrize(
    "balances", [{"account-0": 6}, BALANCES | {"account-1": 5}, BALANCES | {"account-2": 1}]
)
def test_a_wrong_balance_is_found(balances: dict[str, int]) -> None:
    assert compare(LOG, POSITIONS, balances).wrong_balances == 1


def test_progress_counts_only_the_time_in_which_there_was_work() -> None:
    progress = Progress()
    progress.sample(0.0, Position(0, 1), has_work=True)
    progress.sample(2.0, Position(0, 2), has_work=True)
    progress.sample(3.0, Position(0, 2), has_work=False)
    progress.sample(9.0, Position(0, 2), has_work=False)
    assert progress.longest_seconds == 0.0
    progress.sample(10.0, Position(0, 2), has_work=True)
    progress.sample(12.5, Position(0, 2), has_work=True)
    assert progress.longest_seconds == 3.5
