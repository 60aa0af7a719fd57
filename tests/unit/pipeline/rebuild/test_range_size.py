"""How many messages a range of a rebuild has."""

from __future__ import annotations

import pytest

from milepost.pipeline.rebuild.range_size import DEFAULT_MAX_MESSAGES, FEW_ROWS, RangeSize


def test_what_is_not_summed_stays_small() -> None:
    size = RangeSize(None, cores=8, is_summed=False)
    size.saw(copied=1)
    assert size.messages == DEFAULT_MAX_MESSAGES == 500_000


def test_what_is_given_stays() -> None:
    size = RangeSize(3_000_000, cores=8, is_summed=True)
    for copied in (3_000_000, 1):
        size.saw(copied)
        assert size.messages == 3_000_000


@pytest.mark.parametrize(
    ("cores", "sizes"),
    [(1, [1, 1, 1, 1]), (2, [2, 2, 2, 2]), (4, [2, 4, 4, 4]), (12, [2, 4, 8, 12])],
)
def test_sums_that_are_few_let_it_grow_with_the_cores(cores: int, sizes: list[int]) -> None:
    size, found = RangeSize(None, cores, is_summed=True), []
    for _ in sizes:
        found.append(size.messages // 1_000_000)
        size.saw(copied=FEW_ROWS)
    assert found == sizes


def test_sums_that_are_many_end_its_growth() -> None:
    size = RangeSize(None, cores=8, is_summed=True)
    size.saw(copied=FEW_ROWS + 1)
    assert size.messages == 2_000_000
    size.saw(copied=DEFAULT_MAX_MESSAGES + 1)
    assert size.messages == DEFAULT_MAX_MESSAGES


def test_what_is_staged_stays_within_the_rows_of_the_default() -> None:
    """As many rows as messages, for two ranges that were planned before either was merged."""
    size = RangeSize(None, cores=1_000, is_summed=True)
    before = size.messages
    size.saw(copied=FEW_ROWS)
    size.saw(copied=FEW_ROWS)
    assert FEW_ROWS * size.messages // before <= DEFAULT_MAX_MESSAGES
