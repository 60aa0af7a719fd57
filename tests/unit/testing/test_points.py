"""Which crashes are tried, and how rows are compared."""

from __future__ import annotations

from milepost.testing.crash.statements import (
    COMMIT,
    Statement,
    around_handler,
    chosen,
    in_both,
    own_connections,
    plain_text,
    points_of,
    users_first,
)
from milepost.testing.effects import unmatched
from milepost.testing.snapshot import Snapshot, difference_of, ignored_columns


def statement(
    number: int,
    text: str = "select",
    *,
    where: str | None = None,
    connection: int = 0,
    is_durable: bool = True,
    follows_user: bool = False,
) -> Statement:
    return Statement(number, text, number, where, connection, is_durable, follows_user)


START, BEGIN, STORE = statement(1), statement(2, is_durable=False), statement(3, is_durable=False)
INSERT = statement(4, "insert", where="a.py:1", is_durable=False, follows_user=True)
END, REPORT = statement(5, COMMIT, follows_user=True), statement(6)
RUN = [START, BEGIN, STORE, INSERT, END, REPORT]


def shown(statements: list[Statement]) -> list[tuple[int, str]]:
    return [(point.statement.number, point.side) for point in points_of(statements)]


def test_a_crash_that_leaves_what_another_leaves_is_not_tried() -> None:
    assert shown(RUN) == [
        (1, "before"),
        (1, "after"),  # and before 2, 3: nothing was durable or of the user in between
        (4, "before"),
        (4, "lost"),
        (5, "before"),
        (5, "lost"),
        (5, "after"),
        (5, "cut"),
        (6, "after"),  # before 6 is after 5
    ]


def test_a_crash_before_a_statement_is_tried_where_the_users_code_ran() -> None:
    assert shown([START, statement(2, follows_user=True)]) == [
        (1, "before"), (1, "after"), (2, "before"), (2, "lost"), (2, "after")
    ]  # fmt: skip


def test_the_start_of_milepost_is_left_out() -> None:
    assert around_handler([statement(0), *RUN]) == RUN
    assert around_handler([START]) == [START]  # no code of the user: then all


def test_what_is_near_the_users_code_comes_first() -> None:
    assert [point.statement.number for point in users_first(points_of(RUN))][:3] == [4, 5, 5]


def test_of_many_crashes_some_are_chosen_evenly() -> None:
    points = users_first(points_of(RUN))
    assert chosen(points, None) == chosen(points, 50) == points
    near = [point for point in points if point.statement.is_near_user]
    assert chosen(points, 3) == [near[0], near[2], near[4]]
    assert chosen(points, len(near) + 1) == [*near, points[len(near)]]


def test_only_statements_of_both_runs_count() -> None:
    assert in_both([START, INSERT], RUN) == [START, INSERT]


def test_connections_of_the_user_are_known() -> None:
    other = statement(7, where="a.py:2", connection=1)
    assert own_connections([*RUN, other]) == {1}


def test_a_statement_is_shown_in_one_line() -> None:
    assert plain_text("-- why\nselect 1,\n  2") == "select 1, 2"


def test_rows_are_compared_as_multisets() -> None:
    rows = [{"id": 1, "n": 5}, {"id": 2, "n": 6}]
    assert difference_of("t", rows, rows[::-1]) is None
    found = difference_of("t", rows, [{"id": 3, "n": 5}, {"id": 4, "n": 5}], frozenset({"id"}))
    assert found is not None
    assert (found.extra, found.missing) == (({"n": 5},), ({"n": 6},))


def test_columns_that_differ_without_a_crash_are_ignored() -> None:
    first = Snapshot({"t": [{"id": 1, "at": "x", "n": 5}]}, {"t": frozenset({"id"})})
    second = Snapshot({"t": [{"id": 1, "at": "y", "n": 5}]}, {"t": frozenset({"id"})})
    assert ignored_columns(first, second, frozenset({"t.n", "u.at", "nowhere"})) == {
        "t": frozenset({"id", "at", "n"})
    }


def test_an_expected_row_names_what_matters() -> None:
    found = [{"a": 1, "b": 2}, {"a": 1, "b": 3}]
    assert unmatched([{"a": 1}, {"b": 3}], found) == ([], [])
    assert unmatched([{"a": 2}], found[:1]) == ([{"a": 2}], found[:1])
