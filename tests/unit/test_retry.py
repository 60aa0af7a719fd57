from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.retry import Retry

policies = st.builds(
    Retry,
    limit=st.integers(0, 1000),
    first_seconds=st.floats(0, 100),
    factor=st.floats(1, 1000),
    longest_seconds=st.floats(0, 3600),
    jitter=st.floats(0, 1),
)
chances = st.floats(0, 1)


def test_delays_grow_by_the_factor_up_to_the_longest() -> None:
    retry = Retry(first_seconds=0.5, factor=3.0, longest_seconds=20.0)
    assert [retry.delay_seconds(n, chance=0) for n in range(1, 7)] == [0.5, 1.5, 4.5, 13.5, 20, 20]


def test_jitter_is_the_share_of_a_delay_that_is_left_to_chance() -> None:
    retry = Retry(first_seconds=8.0, jitter=0.25)
    assert [retry.delay_seconds(1, chance) for chance in (0, 0.5, 1)] == [8.0, 7.0, 6.0]


def test_without_jitter_chance_changes_nothing() -> None:
    retry = Retry(first_seconds=8.0, jitter=0)
    assert retry.delay_seconds(1, 0) == retry.delay_seconds(1, 1) == 8.0


def test_the_first_delay_is_no_longer_than_the_longest() -> None:
    assert Retry(first_seconds=60, longest_seconds=5).delay_seconds(1, chance=0) == 5


def test_the_defaults_are_a_second_or_so_of_patience_at_first_and_half_a_minute_at_most() -> None:
    retry = Retry()
    assert sum(retry.delay_seconds(n, chance=0) for n in range(1, retry.limit + 1)) < 5
    assert retry.delay_seconds(1_000_000, chance=0) == retry.longest_seconds == 30


@given(policies, st.integers(1, 2**31), chances)
def test_every_delay_lies_between_what_jitter_leaves_and_the_longest(
    retry: Retry, number: int, chance: float
) -> None:
    full = retry.delay_seconds(number, 0)
    assert 0 <= full <= retry.longest_seconds
    assert full * (1 - retry.jitter) - 1e-9 <= retry.delay_seconds(number, chance) <= full


@given(policies, st.integers(1, 200))
def test_no_delay_is_shorter_than_the_one_before(retry: Retry, number: int) -> None:
    assert retry.delay_seconds(number, 0) <= retry.delay_seconds(number + 1, 0)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"limit": -1}, "limit is -1"),
        ({"first_seconds": -0.1}, "negative"),
        ({"longest_seconds": -0.1}, "negative"),
        ({"factor": 0.9}, "factor must be at least 1"),
        ({"jitter": -0.1}, "jitter is -0.1"),
        ({"jitter": 1.1}, "jitter is 1.1"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(options: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Retry(**options)  # type: ignore[arg-type]  # limit is an int, and is given one


def test_no_retries_and_no_delay_are_a_policy_too() -> None:
    assert Retry(limit=0, first_seconds=0, longest_seconds=0).delay_seconds(1, 0.5) == 0


def test_a_great_factor_ends_at_the_longest_delay_however_many_retries() -> None:
    assert Retry(factor=1e6, longest_seconds=7.0, jitter=0).delay_seconds(1000, 0.5) == 7.0


def test_what_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="factor"):
        Retry(factor=float("nan"))
