"""How long an instance leaves a segment to others, and how many it takes meanwhile."""

from __future__ import annotations

import pytest

from milepost.processors.segments.setbacks import Setbacks
from milepost.retry import Retry


@pytest.fixture
def setbacks() -> Setbacks:
    """Pauses of 1, 2, 4 and 8 seconds, and no longer ones."""
    return Setbacks(Retry(first_seconds=1.0, longest_seconds=8.0))


def test_without_any_it_takes_its_share(setbacks: Setbacks) -> None:
    assert setbacks.at_most(held=3, now=0.0) is None
    assert setbacks.left_to_others(0.0) == []


def test_the_pause_of_a_segment_grows_up_to_the_longest(setbacks: Setbacks) -> None:
    now, pauses = 100.0, []
    for times in range(1, 7):
        assert setbacks.note(5, claimed_at=now, now=now) == times
        end = next(t for t in range(1, 20) if not setbacks.left_to_others(now + t))
        pauses.append(end)
        now += end
    assert pauses == [1, 2, 4, 8, 8, 8]


def test_meanwhile_it_takes_no_more_than_it_has_and_then_one(setbacks: Setbacks) -> None:
    setbacks.note(5, claimed_at=0.0, now=10.0)
    assert setbacks.at_most(held=3, now=10.5) == 3
    assert setbacks.at_most(held=3, now=11.5) == 4
    setbacks.progressed(2)
    assert setbacks.at_most(held=3, now=11.5) is None


def test_progress_elsewhere_does_not_end_the_pause_of_the_segment(setbacks: Setbacks) -> None:
    setbacks.note(5, claimed_at=0.0, now=10.0)
    setbacks.progressed(2)
    assert setbacks.left_to_others(10.5) == [5]
    assert setbacks.at_most(held=3, now=10.5) == 3
    assert setbacks.note(5, claimed_at=11.5, now=12.0) == 2


def test_progress_of_the_segment_itself_does(setbacks: Setbacks) -> None:
    setbacks.note(5, claimed_at=0.0, now=10.0)
    setbacks.progressed(5)
    assert setbacks.left_to_others(10.5) == []
    assert setbacks.note(5, claimed_at=11.0, now=12.0) == 1


def test_segments_that_were_claimed_together_are_one_setback_of_the_instance(
    setbacks: Setbacks,
) -> None:
    assert [setbacks.note(n, claimed_at=9.0, now=10.0 + n / 10) for n in range(8)] == [1] * 8


def test_another_segment_is_another_setback_of_an_instance_without_progress(
    setbacks: Setbacks,
) -> None:
    """Or an instance with many segments would try all of them with the shortest pause."""
    assert setbacks.note(0, claimed_at=9.0, now=10.0) == 1
    assert setbacks.note(1, claimed_at=11.5, now=12.0) == 2
    assert setbacks.note(2, claimed_at=14.5, now=15.0) == 3
    setbacks.progressed(7)
    assert setbacks.note(3, claimed_at=20.0, now=21.0) == 1


def test_one_that_was_claimed_while_another_paused_is_not(setbacks: Setbacks) -> None:
    assert setbacks.note(0, claimed_at=9.0, now=10.0) == 1
    assert setbacks.note(1, claimed_at=10.5, now=10.6) == 1
