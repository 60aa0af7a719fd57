"""Every effect exactly once and in the order of its key, whoever is killed when, and however the
segments are cut meanwhile; and the same harness finds what is doubled without the floors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from milepost.db import Connection
from milepost.records import Position
from tests.chaos.options import SECONDS, TIMEOUT_SECONDS, new_seed
from tests.chaos.segments.outcome import Outcome, compare
from tests.chaos.segments.torture import Result, Torture
from tests.soak import Figures

SABOTAGED_SECONDS = 8.0

FORGET_ALL_FLOORS = """
create or replace function milepost.prune_floors(processor text, version integer) returns void
language sql volatile as 'delete from milepost.segment_floors'
"""


def torture(
    url: str, directory: Path, seconds: float, mode: str = "exactly once", doubled: int = 0
) -> Result:
    result = Torture(url, directory, seconds, new_seed(), mode, doubled).run()
    sys.stdout.write(f"{result}\n")
    return result


@pytest.mark.soak
@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("order", ["append"])
def test_every_effect_happens_once_whatever_becomes_of_instances_and_segments(
    url: str, tmp_path: Path, figures: Figures
) -> None:
    result = torture(url, tmp_path, SECONDS)
    figures.of(result)
    assert result.outcome.is_clean, result
    assert result.outcome.messages > 0, result
    assert result.kills > 0, result
    assert result.changes > 0, result


@pytest.mark.soak
@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("order", ["append"])
def test_a_handler_that_keeps_everything_in_memory_loses_nothing(
    url: str, tmp_path: Path, figures: Figures
) -> None:
    result = torture(url, tmp_path, SECONDS, "deferred")
    outcome = result.outcome  # which may repeat: at least once is what such a handler promises
    figures(messages=outcome.messages, kills=result.kills, lost=outcome.lost)
    assert result.outcome.is_clean_but_for_repeats, result
    assert result.kills > 0, result
    assert result.changes > 0, result


@pytest.mark.soak
@pytest.mark.parametrize("order", ["append"])
def test_without_the_floors_merges_double_effects(
    url: str, conn: Connection, tmp_path: Path
) -> None:
    """By chance, which is given as long as it takes."""
    conn.execute(FORGET_ALL_FLOORS)
    result = torture(url, tmp_path, SABOTAGED_SECONDS, doubled=1)
    assert result.outcome.doubled > 0, result


def test_the_comparison_finds_what_is_wrong() -> None:
    log = [(Position(0, n), f"key-{n % 2}") for n in range(1, 7)]
    effects = [Position(0, n) for n in (1, 2, 3, 6, 4, 3, 9)]
    assert compare(log, effects) == Outcome(6, lost=1, doubled=1, made_up=1, out_of_order=1)
    repeated = compare(log, [Position(0, n) for n in (1, 2, 3, 4, 3, 4, 5, 6)])
    assert (repeated.is_clean, repeated.is_clean_but_for_repeats) == (False, True)
    assert compare(log, [position for position, _ in log]).is_clean
