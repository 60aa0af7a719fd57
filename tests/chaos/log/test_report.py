"""The torture's verdict counts what it is there to count."""

from __future__ import annotations

import pytest

from milepost.records import Position
from tests.chaos.log.report import Account, Entry, Journal, Promises, account, check_promises


def entries(*positions: int) -> list[Entry]:
    return [Entry(Position(0, position), writer=7, number=position) for position in positions]


def found(seen: list[Entry]) -> tuple[int, int, int, int]:
    verdict = account("reader", entries(1, 2, 4), seen, sessions=1)
    return verdict.lost, verdict.doubled, verdict.out_of_order, verdict.never_committed


def test_a_reader_that_saw_everything_once_and_in_order_is_clean() -> None:
    assert account("reader", entries(1, 2, 4), entries(1, 2, 4), 5) == Account(
        "reader", 3, 5, lost=0, doubled=0, out_of_order=0, never_committed=0
    )


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (entries(1, 4), (1, 0, 0, 0)),
        (entries(1, 2, 2, 4), (0, 1, 0, 0)),
        (entries(1, 2, 3, 4), (0, 0, 0, 1)),
        (entries(), (3, 0, 0, 0)),
    ],
)
def test_each_deviation_of_a_reader_is_counted(
    seen: list[Entry], expected: tuple[int, int, int, int]
) -> None:
    assert found(seen) == expected


def test_a_position_or_a_writers_number_that_goes_down_is_out_of_order() -> None:
    swapped = [Entry(Position(0, 1), 7, 2), Entry(Position(0, 2), 7, 1)]
    assert account("reader", swapped, swapped, 1).out_of_order == 1
    assert account("reader", swapped, swapped[::-1], 1).out_of_order == 1


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (entries(1, 2, 5, 6), Promises(vanished=0, torn=0, unwanted=0)),
        (entries(1, 2), Promises(vanished=0, torn=0, unwanted=0)),  # the last is not known
        (entries(5, 6), Promises(vanished=2, torn=0, unwanted=0)),
        (entries(1, 2, 6), Promises(vanished=0, torn=1, unwanted=0)),
        (entries(1, 2, 3), Promises(vanished=0, torn=0, unwanted=1)),
    ],
)
def test_a_writers_journal_is_held_against_the_table(
    there: list[Entry], expected: Promises
) -> None:
    journal = Journal.parse(7, "commit 1 2\ncommitted\ncommit 5 6\n")
    assert check_promises(there, [journal]) == expected
