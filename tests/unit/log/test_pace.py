from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.log.pace import FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS, Pace


def waits(pace: Pace, looks: int) -> list[float]:
    """What is waited while something is held and nothing comes of it."""
    found = []
    for _ in range(looks):
        wait, pace = pace.after(is_full=False, is_fruitful=False, is_held=True)
        found.append(wait)
    return found


@pytest.mark.parametrize("is_held", [True, False])
def test_after_a_full_batch_there_is_no_wait(is_held: bool) -> None:
    wait, pace = Pace(5.0, 3).after(is_full=True, is_fruitful=True, is_held=is_held)
    assert wait == 0
    assert pace == Pace(5.0)


@pytest.mark.parametrize("is_fruitful", [True, False])
def test_with_nothing_in_flight_the_wait_is_the_poll_interval(is_fruitful: bool) -> None:
    wait, pace = Pace(5.0, 3).after(is_full=False, is_fruitful=is_fruitful, is_held=False)
    assert (wait, pace) == (5.0, Pace(5.0))


def test_while_something_is_held_looks_start_soon_and_grow_rarer_up_to_a_limit() -> None:
    found = waits(Pace(5.0), 30)
    assert found[0] == FIRST_LOOK_SECONDS
    assert found == sorted(found)
    assert found[1] > found[0]
    assert found[-1] == LONGEST_LOOK_SECONDS


def test_a_fruitful_look_starts_again_soon() -> None:
    wait, pace = Pace(5.0, 20).after(is_full=False, is_fruitful=True, is_held=True)
    assert wait == FIRST_LOOK_SECONDS
    assert waits(pace, 1)[0] < LONGEST_LOOK_SECONDS


def test_a_poll_interval_shorter_than_a_look_is_kept() -> None:
    assert max(waits(Pace(0.0005), 10)) == 0.0005


@given(
    st.floats(min_value=0.001, max_value=3600),
    st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans())),
)
def test_no_wait_is_longer_than_the_poll_interval(
    poll_seconds: float, looks: list[tuple[bool, bool, bool]]
) -> None:
    pace = Pace(poll_seconds)
    for is_full, is_fruitful, is_held in looks:
        wait, pace = pace.after(is_full=is_full, is_fruitful=is_fruitful, is_held=is_held)
        assert 0 <= wait <= poll_seconds
        assert (wait == 0) == is_full
        assert pace.poll_seconds == poll_seconds
