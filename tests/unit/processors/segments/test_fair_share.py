"""What an instance does after a beat."""

from __future__ import annotations

import pytest

from milepost import sql
from milepost.processors.segments.fair_share import Plan, Tended, plan

NONE: frozenset[int] = frozenset()


def tended(
    epochs: dict[int, int], share: int, wanted: frozenset[int] = NONE, expiry: float | None = None
) -> Tended:
    return Tended(epochs, wanted, share, expiry)


def test_what_is_missing_is_claimed() -> None:
    assert plan(tended({0: 1}, 3), {0: 1}, NONE) == Plan([], {}, [], 2)


def test_the_surplus_is_released_the_highest_first() -> None:
    held = {0: 1, 1: 1, 2: 1, 3: 1}
    assert plan(tended(held, 2), held, NONE) == Plan([], {}, [2, 3], 0)


def test_what_is_on_its_way_back_is_not_released_again_and_its_place_not_filled_yet() -> None:
    held = {0: 1, 1: 1, 2: 1}
    assert plan(tended(held, 2), held, frozenset({2})) == Plan([], {}, [], 0)
    assert plan(tended(held, 3), held, frozenset({2})) == Plan([], {}, [], 0)


def test_what_operators_want_is_released_and_not_made_up_for_out_of_the_share() -> None:
    held = {0: 1, 1: 1, 2: 1}
    assert plan(tended(held, 3, frozenset({1})), held, NONE) == Plan([], {}, [1], 1)


@pytest.mark.parametrize("answer", [{}, {0: 2}])
def test_a_claim_with_another_epoch_or_none_is_lost(answer: dict[int, int]) -> None:
    found = plan(tended(answer, 1), {0: 1}, NONE)
    assert found.lost == [0]


def test_what_the_server_thinks_is_ours_and_is_not_is_given_back() -> None:
    assert plan(tended({0: 1, 5: 9}, 1), {0: 1}, NONE).stray == {5: 9}


def test_the_next_beat_falls_just_after_the_next_expiry() -> None:
    assert tended({}, 1).seconds_to_next(1.0) == 1.0
    assert tended({}, 1, expiry=5.0).seconds_to_next(1.0) == 1.0
    assert 0.3 < tended({}, 1, expiry=0.3).seconds_to_next(1.0) < 0.4


def test_what_has_expired_and_cannot_be_had_yet_is_no_reason_to_spin() -> None:
    assert tended({}, 1, expiry=-3.0).seconds_to_next(1.0) == 0.25


def test_no_time_of_a_client_is_ever_passed() -> None:
    """Durations only: a client with a wrong clock cannot claim too early or for too long."""
    names = ("tend", "claim", "want", "release", "leave", "split", "merge", "create")
    texts = [sql.query(f"segments_{name}").decode() for name in names]
    assert not any("timestamp" in text or "now()" in text for text in texts)
