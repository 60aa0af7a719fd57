"""Every effect exactly once, whoever is killed when; and the same harness finds what is doubled
as soon as the checkpoint is stored without comparing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from milepost.db import Connection
from milepost.sql import LogOrder
from tests.chaos.options import SECONDS, TIMEOUT_SECONDS, new_seed
from tests.chaos.processors.sabotage import STORE_WITHOUT_COMPARING
from tests.chaos.processors.torture import Result, Torture
from tests.soak import Figures

pytestmark = pytest.mark.soak
SABOTAGED_SECONDS = 2.0
ENOUGH_DOUBLED = 20  # of random amounts, which then do not make up for each other
LONGEST_GAP_SECONDS = 15.0


def torture(url: str, directory: Path, seconds: float, doubled: int = 0) -> Result:
    result = Torture(url, directory, seconds, new_seed(), doubled).run()
    sys.stdout.write(f"{result}\n")
    return result


@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_every_effect_happens_once_though_instances_are_killed(
    url: str, order: LogOrder, tmp_path: Path, figures: Figures
) -> None:
    result = torture(url, tmp_path, SECONDS)
    figures.of(result)
    assert result.outcome.is_clean, result
    assert result.outcome.messages > 0, result
    assert result.kills > 0, result
    assert result.longest_gap_seconds < LONGEST_GAP_SECONDS, result


@pytest.mark.parametrize("order", ["append"])
def test_storing_without_comparing_doubles_effects(
    url: str, conn: Connection, tmp_path: Path
) -> None:
    conn.execute(STORE_WITHOUT_COMPARING)
    result = torture(url, tmp_path, SABOTAGED_SECONDS, ENOUGH_DOUBLED)
    assert result.outcome.doubled > 0, result
    assert result.outcome.wrong_balances > 0, result
