"""Where the last messages of a selection begin, in the table and in files."""

from __future__ import annotations

import pytest

from milepost import Message, Milepost, Position, append
from milepost.db import Connection
from milepost.pipeline.source import Conditions
from milepost.pipeline.source.tail import MAX_WALKED, tail
from tests.pipeline.archived import Archive

ORDERS = Conditions(topics=frozenset(["orders"]))
ALL = Conditions()


@pytest.fixture
def positions(mp: Milepost) -> list[Position]:
    """Of 30 messages, of which every third is an order: 0, 3, 6 ... 27."""
    found = []
    with mp.connect() as conn:
        for number in range(30):
            topic = "others" if number % 3 else "orders"
            found += append(conn, Message("Placed", {"n": number}, topic=topic))
    return found


def selected_after(positions: list[Position], after: Position, conditions: Conditions) -> list[int]:
    step = 3 if conditions.topics else 1
    return [n for n in range(0, 30, step) if positions[n] > after]


def check(
    conn: Connection,
    positions: list[Position],
    conditions: Conditions,
    count: int,
    expected: int,
    max_walked: int = MAX_WALKED,
) -> None:
    found = tail(conn, "milepost", conditions, positions[-1], count, max_walked)
    numbers = selected_after(positions, found.after, conditions)
    assert (found.messages, len(numbers)) == (expected, expected)


@pytest.mark.parametrize(("conditions", "there_are"), [(ALL, 30), (ORDERS, 10)])
@pytest.mark.parametrize("count", [1, 4, 10, 50])
def test_in_the_table(
    conn: Connection, positions: list[Position], conditions: Conditions, there_are: int, count: int
) -> None:
    check(conn, positions, conditions, count, min(count, there_are))


def test_up_to_a_position(conn: Connection, positions: list[Position]) -> None:
    found = tail(conn, "milepost", ALL, positions[9], 3)
    assert (found.messages, positions[6] <= found.after < positions[7]) == (3, True)


def test_an_empty_log_has_none(conn: Connection) -> None:
    found = tail(conn, "milepost", ALL, Position.BEGINNING, 5)
    assert (found.after, found.messages) == (Position.BEGINNING, 0)


def test_a_rare_selection_is_not_searched_for_ever(
    conn: Connection, positions: list[Position]
) -> None:
    check(conn, positions, ORDERS, 10, expected=2, max_walked=6)


@pytest.mark.parametrize("removed", [20, 30])
@pytest.mark.parametrize(("conditions", "there_are"), [(ALL, 30), (ORDERS, 10)])
@pytest.mark.parametrize("count", [3, 5, 9, 12, 50])
def test_what_was_removed_is_found_in_files(
    conn: Connection,
    positions: list[Position],
    archive: Archive,
    *,
    removed: int,
    conditions: Conditions,
    there_are: int,
    count: int,
) -> None:
    archive.up_to(positions[6], positions[14], positions[29])
    archive.remove(positions[removed - 1])
    check(conn, positions, conditions, count, min(count, there_are))


def test_what_was_removed_and_is_in_no_file_is_gone(
    conn: Connection, positions: list[Position], archive: Archive
) -> None:
    archive.remove(positions[19])
    check(conn, positions, ALL, 50, expected=10)
