"""What may be stored, whatever handlers ask for and report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.processors.self_checkpointing.reconcile import (
    LATEST,
    Report,
    Request,
    Unreconciled,
    advanced,
    highest,
    lowest,
    merged,
    reconciled,
    within,
)
from milepost.records import Position

positions = st.builds(Position, st.integers(0, 2), st.integers(0, 12))
requests: st.SearchStrategy[Request] = st.one_of(st.just(LATEST), positions)
reports: st.SearchStrategy[Report] = st.one_of(st.none(), requests)


ROUNDS = 3


def at(position: int) -> Position:
    return Position(0, position)


@dataclass(slots=True)
class Asked:
    """Participants that answer with what was drawn for them: first, when asked again, and when
    asked a last time, because somebody has overtaken the others."""

    first: Sequence[Report]
    again: Sequence[Report]
    finally_: Sequence[Report] = ()
    questions: list[tuple[list[int], Position]] = field(default_factory=list)
    last: dict[int, Report] = field(default_factory=dict)

    def __call__(self, who: Sequence[int], requested: Position) -> list[Report]:
        answers = (self.first, self.again, self.finally_)[len(self.questions)]
        self.questions.append((list(who), requested))
        # Asked for more, None says that it stays where it was.
        given = {n: answers[n] for n in who}
        is_last = len(self.questions) == ROUNDS
        self.last |= {n: r for n, r in given.items() if not is_last or r is not None}
        return list(given.values())


participants = st.lists(st.tuples(reports, reports, reports), min_size=1, max_size=4).map(
    lambda drawn: Asked([a for a, _, _ in drawn], [b for _, b, _ in drawn], [c for *_, c in drawn])
)


def test_5_then_3_stays_5() -> None:
    assert merged(merged(None, at(5)), at(3)) == at(5)


def test_5_and_8_become_8_in_any_order() -> None:
    assert merged(merged(None, at(5)), at(8)) == merged(merged(None, at(8)), at(5)) == at(8)


@given(st.lists(requests, min_size=1), positions)
def test_a_request_never_goes_backwards(asked: list[Request], consumed: Position) -> None:
    pending: list[Request] = []
    for request in asked:
        pending.append(merged(pending[-1] if pending else None, request))
    resolved = [within(request, consumed) for request in pending]
    assert all(a is not None and b is not None and a <= b for a, b in pairwise(resolved))
    assert resolved[-1] == max(within(request, consumed) or at(0) for request in asked)


@given(reports, positions)
def test_a_report_is_never_believed_beyond_what_was_consumed(
    report: Report, consumed: Position
) -> None:
    found = within(report, consumed)
    assert found is None if report is None else found is not None and found <= consumed


def test_latest_is_what_was_consumed() -> None:
    assert within(LATEST, at(7)) == at(7)


@given(participants, positions, positions)
def test_what_is_reconciled_is_covered_by_every_participant_and_was_consumed(
    asked: Asked, requested: Position, consumed: Position
) -> None:
    try:
        agreed = reconciled(len(asked.first), asked, requested, consumed)
    except Unreconciled:
        return
    if agreed is None:
        assert all(report is None for report in asked.first)
        return
    assert agreed <= consumed
    for report in asked.last.values():
        covered = within(report, consumed)
        assert covered is not None
        assert agreed <= covered


@given(participants, positions, positions)
def test_everybody_is_asked_once_and_then_only_laggards(
    asked: Asked, requested: Position, consumed: Position
) -> None:
    failure_of(asked, requested, consumed)
    assert asked.questions[0] == (list(range(len(asked.first))), requested)
    assert len(asked.questions) <= ROUNDS
    known = [within(report, consumed) for report in asked.first]
    for (who, target), answers in zip(
        asked.questions[1:], (asked.again, asked.finally_), strict=False
    ):
        assert target == highest(known)
        assert who == [n for n, report in enumerate(known) if report is None or report < target]
        for n in who:
            known[n] = within(answers[n], consumed)


@given(participants, positions, positions)
def test_nobody_is_asked_a_third_time_unless_somebody_has_overtaken_the_leader(
    asked: Asked, requested: Position, consumed: Position
) -> None:
    agreed = agreed_by(asked, requested, consumed)
    if len(asked.questions) == ROUNDS:
        assert asked.questions[2][1] > asked.questions[1][1]
        assert agreed is None or agreed >= asked.questions[1][1]


@given(participants, positions, positions)
def test_what_all_have_made_durable_is_stored(
    asked: Asked, requested: Position, consumed: Position
) -> None:
    """No lower than the lowest of what they reported last."""
    agreed = agreed_by(asked, requested, consumed)
    if agreed is not None:
        known = [within(asked.last[n], consumed) for n in range(len(asked.first))]
        assert agreed == lowest(known)


@given(participants, positions, positions)
def test_who_cannot_reach_the_highest_report_is_named(
    asked: Asked, requested: Position, consumed: Position
) -> None:
    error = failure_of(asked, requested, consumed)
    if error is not None:
        assert error.behind
        for n in error.behind:
            report = within(asked.last[n], consumed)
            assert report is None or report < error.target


@given(participants, positions, positions)
def test_a_position_that_must_be_covered_is_covered_or_nothing_is(
    asked: Asked, consumed: Position, requested: Position
) -> None:
    must = min(consumed, requested)
    error = failure_of(asked, must, consumed, must_reach=must)
    covered = [within(report, consumed) for report in asked.last.values()]
    is_covered = all(report is not None and report >= must for report in covered)
    assert is_covered == (error is None)
    assert error is None or error.target == must


def failure_of(
    asked: Asked, requested: Position, consumed: Position, must_reach: Position | None = None
) -> Unreconciled | None:
    try:
        reconciled(len(asked.first), asked, requested, consumed, must_reach=must_reach)
    except Unreconciled as error:
        return error
    return None


def agreed_by(asked: Asked, requested: Position, consumed: Position) -> Position | None:
    try:
        return reconciled(len(asked.first), asked, requested, consumed)
    except Unreconciled:
        return None


def test_where_a_laggard_overtakes_the_leader_the_leader_is_asked_again() -> None:
    """8 is durable for both in the end, so 8 is stored and not 5."""
    asked = Asked([at(5), at(3)], [None, at(8)], [at(8), None])
    assert reconciled(2, asked, at(8), at(8)) == at(8)
    assert asked.questions == [([0, 1], at(8)), ([1], at(5)), ([0], at(8))]


@pytest.mark.parametrize("stays", [None, at(5)])
def test_a_leader_that_cannot_follow_who_has_overtaken_it_fails_nothing(stays: Report) -> None:
    asked = Asked([at(5), at(3)], [None, at(8)], [stays, None])
    assert reconciled(2, asked, at(8), at(8)) == at(5)


def test_of_several_that_follow_the_lowest_counts() -> None:
    asked = Asked([at(5), at(3), at(2)], [None, at(8), at(6)], [at(8), None, at(7)])
    assert reconciled(3, asked, at(9), at(9)) == at(7)


def test_who_takes_back_what_it_has_reported_fails_it() -> None:
    with pytest.raises(Unreconciled) as caught:
        reconciled(2, Asked([at(5), at(3)], [None, at(8)], [at(4), None]), at(8), at(8))
    assert (caught.value.target, caught.value.behind) == (at(5), [0])


def test_what_must_be_reached_is_not_asked_for_a_third_time() -> None:
    asked = Asked([at(5), at(3)], [None, at(8)])
    assert reconciled(2, asked, at(5), at(9), must_reach=at(5)) == at(5)
    assert len(asked.questions) == 2


def test_a_laggard_that_catches_up_when_asked_again_is_enough() -> None:
    asked = Asked([at(8), at(5), None], [None, at(8), at(8)])
    assert reconciled(3, asked, at(9), at(9)) == at(8)
    assert asked.questions == [([0, 1, 2], at(9)), ([1, 2], at(8))]


def test_a_laggard_that_stays_behind_fails_it() -> None:
    with pytest.raises(Unreconciled) as caught:
        reconciled(2, Asked([at(8), at(5)], [None, at(7)]), at(9), at(9))
    assert (caught.value.target, caught.value.behind) == (at(8), [1])


def test_where_nobody_advances_nothing_is_stored_and_nothing_has_failed() -> None:
    assert reconciled(2, Asked([None, None], []), at(9), at(9)) is None


@given(st.lists(st.one_of(st.none(), positions), min_size=1))
def test_at_a_release_the_lowest_counts_and_no_advance_is_the_lowest_of_all(
    given_reports: list[Position | None],
) -> None:
    found = lowest(given_reports)
    if None in given_reports:
        assert found is None
    else:
        assert found is not None
        assert all(report is not None and found <= report for report in given_reports)
        assert found in given_reports


def test_nobody_to_ask_reports_nothing() -> None:
    assert lowest([]) is None
    assert highest([]) is None


@given(st.lists(st.one_of(st.none(), positions)), positions)
def test_what_was_stored_never_goes_back(
    candidates: list[Position | None], stored: Position
) -> None:
    for candidate in candidates:
        new = advanced(candidate, stored)
        assert new is None or new > stored
        stored = new or stored
