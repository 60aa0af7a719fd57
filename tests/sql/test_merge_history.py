"""The merge of a history, without Spark: rows lie in staging, the function does the rest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import errors as pg

from milepost.db import Connection, one
from milepost.sql import LogOrder

# A key, a time, a value, and whether the key is deleted then.
Row: TypeAlias = tuple[str | None, int | None, float | None, bool | None]
Version: TypeAlias = tuple[str, str | None, int, int | None]

MERGE = """
select milepost.merge_history('staging_t', 'target'::regclass, array['c1'], array['text'],
  array['starts_at'], array['double precision'], 'valid_from', 'bigint', %(delete)s,
  %(attempts)s::bigint[])
"""
# As text, because 0.0 and -0.0 are equal.
VERSIONS = """
select c1, starts_at::text, valid_from, valid_to from target order by c1 collate "C", valid_from
"""


@pytest.fixture
def order() -> LogOrder:
    """No matter of the log."""
    return "append"


@pytest.fixture
def conn(conn: Connection) -> Connection:
    """Columns have names that the function uses itself."""
    conn.execute(
        "create table target (c1 text, starts_at double precision, valid_from bigint,"
        " valid_to bigint, primary key (c1, valid_from))"
    )
    conn.execute(
        "create unlogged table milepost.staging_t (c1 text, valid_from bigint,"
        ' starts_at double precision, "is deleted" boolean, _attempt bigint, _row bigint)'
    )
    return conn


def stage(conn: Connection, rows: Sequence[Row], tag: int = 1) -> None:
    with conn.cursor() as cursor:
        cursor.executemany(
            "insert into milepost.staging_t values (%s, %s, %s, %s, %s, %s)",
            [(*row, tag, number) for number, row in enumerate(rows)],
        )


def merge(conn: Connection, *rows: Row, delete: str | None = "is deleted") -> int:
    """By two tasks, of which the first has the higher tag; a third one does not count."""
    conn.execute("truncate milepost.staging_t")
    half = len(rows) // 2
    stage(conn, rows[:half], tag=9)
    stage(conn, [("a", 1, 9.0, True), ("b", 2, 9.0, False)], tag=5)
    stage(conn, rows[half:], tag=2)
    parameters = {"attempts": [9, 2], "delete": delete}
    count: int = one(conn.execute(MERGE, parameters).fetchone())[0]
    return count


def versions(conn: Connection) -> list[Version]:
    return conn.execute(VERSIONS).fetchall()


def model(rows: Sequence[Row]) -> list[Version]:
    """What the whole sequence comes to: the last word about each key and time counts."""
    said = {(key, at): (value, gone) for key, at, value, gone in rows}
    ordered = sorted(said, key=str)
    found: list[Version] = []
    for (key, at), following in pairwise([*ordered, (None, None)]):
        assert key is not None
        assert at is not None
        value, gone = said[key, at]
        ends = at if gone else following[1] if following[0] == key else None
        text = None if value is None else f"{value:g}"
        found.append((key, text, at, ends))
    return found


def test_a_version_ends_where_the_next_one_begins(conn: Connection) -> None:
    assert merge(conn, ("a", 1, 10, False), ("b", 1, 5, None)) == 2
    merge(conn, ("a", 4, 20, False))
    assert versions(conn) == [("a", "10", 1, 4), ("a", "20", 4, None), ("b", "5", 1, None)]


def test_a_late_row_splits_the_version_that_it_lies_in(conn: Connection) -> None:
    merge(conn, ("a", 1, 10, False), ("a", 9, 90, False))
    merge(conn, ("a", 5, 50, False))
    merge(conn, ("a", 0, 0, False))
    assert versions(conn) == [
        ("a", "0", 0, 1), ("a", "10", 1, 5), ("a", "50", 5, 9), ("a", "90", 9, None)
    ]  # fmt: skip


def test_a_repeated_row_changes_nothing(conn: Connection) -> None:
    rows: list[Row] = [("a", 1, 10, False), ("a", 4, 20, False), ("a", 6, None, True)]
    assert merge(conn, *rows) == 3
    before = conn.execute("select ctid, xmin::text from target order by ctid").fetchall()
    assert merge(conn, *rows) == 0
    assert conn.execute("select ctid, xmin::text from target order by ctid").fetchall() == before


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_of_two_rows_with_one_time_the_later_wins(conn: Connection, in_one_batch: bool) -> None:
    rows: list[Row] = [("a", 1, 10, False), ("a", 1, 7, False), ("a", 1, 8, False)]
    for batch in [rows] if in_one_batch else [[row] for row in rows]:
        merge(conn, *batch)
    assert versions(conn) == [("a", "8", 1, None)]


def test_equal_values_at_two_times_are_two_versions(conn: Connection) -> None:
    """Else a late row between them would hide the second."""
    merge(conn, ("a", 1, 10, False), ("a", 5, 10, False))
    merge(conn, ("a", 3, 30, False))
    assert versions(conn) == [("a", "10", 1, 3), ("a", "30", 3, 5), ("a", "10", 5, None)]


def test_a_deletion_ends_the_version_and_is_valid_at_no_time(conn: Connection) -> None:
    merge(conn, ("a", 1, 10, False), ("a", 5, None, True))
    assert versions(conn) == [("a", "10", 1, 5), ("a", None, 5, 5)]
    merge(conn, ("a", 8, 80, None))
    merge(conn, ("a", 3, 30, False))
    assert versions(conn) == [
        ("a", "10", 1, 3), ("a", "30", 3, 5), ("a", None, 5, 5), ("a", "80", 8, None)
    ]  # fmt: skip


def test_a_deletion_that_comes_before_what_it_deletes_counts(conn: Connection) -> None:
    merge(conn, ("a", 5, None, True))
    merge(conn, ("a", 3, 30, False))
    assert versions(conn) == [("a", "30", 3, 5), ("a", None, 5, 5)]


def test_without_a_column_for_it_nothing_is_deleted(conn: Connection) -> None:
    merge(conn, ("a", 1, 10, True), ("a", 5, 50, True), delete=None)
    assert versions(conn) == [("a", "10", 1, 5), ("a", "50", 5, None)]


@pytest.mark.parametrize("row", [(None, 1, 1.0, False), ("a", None, 1.0, False)])
def test_a_null_in_the_key_or_the_time_is_refused(conn: Connection, row: Row) -> None:
    with pytest.raises(pg.NotNullViolation):
        merge(conn, ("b", 1, 1.0, False), row)
    assert versions(conn) == []


ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(0, 6),
        st.sampled_from([None, 0.0, -0.0, 1.0, 2.0]),
        st.sampled_from([None, False, False, True]),
    ),
    max_size=16,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, cuts=st.sets(st.integers(1, 15)))
def test_any_cutting_into_batches_gives_the_same(
    conn: Connection, rows: list[Row], cuts: set[int]
) -> None:
    conn.execute("truncate target")
    for first, behind in pairwise([0, *sorted(cuts), 16]):
        merge(conn, *rows[first:behind])
    assert versions(conn) == model(rows)


def test_a_few_rows_are_looked_up_in_a_large_history(conn: Connection) -> None:
    conn.execute(
        "insert into target select 'k' || n % 1000, n, n, n + 1000 from generate_series(1, 50000) n"
    )
    conn.execute("analyze target")
    with conn.transaction():
        before = _scanned(conn)
        merge(conn, ("k1", 2500, 1.0, False), ("k2", 0, 1.0, False))
        assert _scanned(conn) == before


def _scanned(conn: Connection) -> int:
    """The rows that scans of the whole table have read in this transaction."""
    query = "select pg_stat_get_xact_tuples_returned('target'::regclass)"
    count: int = one(conn.execute(query).fetchone())[0]
    return count
