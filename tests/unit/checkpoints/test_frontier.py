from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.checkpoints.frontier import Frontier
from milepost.records import Position


def at(sequence: int) -> Position:
    """Positions rise, but neither their first nor their second part does so alone."""
    return Position(sequence // 3, 100 - sequence if sequence % 3 == 0 else 100 + sequence)


def admitted(count: int) -> Frontier:
    frontier = Frontier()
    assert [frontier.admit() for _ in range(count)] == list(range(1, count + 1))
    return frontier


def contiguous(completed: set[int]) -> int:
    """The model: the highest n with all of 1..n complete."""
    return next(n for n in range(len(completed) + 1) if n + 1 not in completed)


def test_nothing_admitted_is_nothing_to_store() -> None:
    frontier = Frontier()
    assert (frontier.position, frontier.pending, frontier.oldest_gap) == (None, 0, None)


def test_completions_in_order_move_the_frontier_one_by_one() -> None:
    frontier = admitted(3)
    for sequence in (1, 2, 3):
        assert frontier.complete(sequence, at(sequence))
        assert (frontier.sequence, frontier.position) == (sequence, at(sequence))


def test_completions_above_a_gap_wait_until_it_closes() -> None:
    frontier = admitted(3)
    assert not frontier.complete(2, at(2))
    assert not frontier.complete(3, at(3))
    assert frontier.position is None
    assert frontier.complete(1, at(1))
    assert frontier.position == at(3)


def test_the_frontier_stops_at_the_next_gap() -> None:
    frontier = admitted(5)
    for sequence in (2, 4, 5, 1):
        frontier.complete(sequence, at(sequence))
    assert (frontier.position, frontier.oldest_gap, frontier.pending) == (at(2), 3, 3)


def test_a_repeated_completion_is_counted_once_and_leaves_no_trace() -> None:
    frontier = admitted(3)
    for sequence in (1, 1, 3, 3, 1):
        frontier.complete(sequence, at(sequence))
    assert (frontier.completed, frontier.sequence) == (2, 1)
    assert not frontier.complete(1, at(9))
    assert frontier.position == at(1)
    frontier.complete(2, at(2))
    assert not frontier.complete(2, at(2))
    assert not frontier._waiting


def test_a_repeat_does_not_change_the_position_that_waits() -> None:
    frontier = admitted(2)
    frontier.complete(2, at(2))
    frontier.complete(2, at(99))
    frontier.complete(1, at(1))
    assert frontier.position == at(2)


@pytest.mark.parametrize("sequence", [-1, 0, 3, 2**40])
def test_a_sequence_that_was_never_admitted_is_refused(sequence: int) -> None:
    frontier = admitted(2)
    with pytest.raises(ValueError, match=f"sequence {sequence} was never admitted"):
        frontier.complete(sequence, at(1))
    assert (frontier.completed, frontier.position) == (0, None)


def test_every_order_of_five_completions_agrees_with_the_model_at_every_point() -> None:
    for order in permutations(range(1, 6)):
        frontier = admitted(5)
        for done, sequence in enumerate(order, start=1):
            frontier.complete(sequence, at(sequence))
            assert frontier.sequence == contiguous(set(order[:done]))


@st.composite
def histories(draw: st.DrawFn) -> list[int | None]:
    """Admissions (None) and completions of what is admitted, repeated and old ones included."""
    events: list[int | None] = []
    admitted = 0
    for _ in range(draw(st.integers(0, 80))):
        if not admitted or draw(st.booleans()):
            admitted += 1
            events.append(None)
        else:
            events.append(draw(st.integers(1, admitted)))
    return events


@given(histories())
def test_any_history_agrees_with_the_model_at_every_point(history: list[int | None]) -> None:
    frontier, completed, admitted = Frontier(), set[int](), 0
    for event in history:
        if event is None:
            admitted += 1
            assert frontier.admit() == admitted
        else:
            before = contiguous(completed)
            completed.add(event)
            moved = frontier.complete(event, at(event))
            assert moved == (contiguous(completed) > before)
        expected = contiguous(completed)
        assert frontier.sequence == expected
        assert frontier.position == (at(expected) if expected else None)
        assert frontier.completed == len(completed)
        assert frontier.pending == admitted - expected
        assert frontier.oldest_gap == (expected + 1 if admitted > expected else None)
        # What is kept lies above the frontier, so that bounding `pending` bounds memory.
        assert set(frontier._waiting) == {n for n in completed if n > expected}


@given(st.permutations(range(1, 13)), st.integers(0, 12))
def test_a_restart_at_the_frontier_skips_nothing_and_repeats_only_what_is_above_it(
    order: list[int], crash_after: int
) -> None:
    frontier = admitted(len(order))
    handled = order[:crash_after]
    for sequence in handled:
        frontier.complete(sequence, at(sequence))
    again = range(frontier.sequence + 1, len(order) + 1)
    assert set(handled) | set(again) == set(order)
    assert set(range(1, frontier.sequence + 1)) <= set(handled)
