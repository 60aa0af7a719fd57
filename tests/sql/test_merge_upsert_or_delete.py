"""The merge of an upsert that also deletes, without Spark."""

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

Row: TypeAlias = tuple[str | None, int | None, bool | None]  # a key, a value, whether it is deleted

MERGE = """
select milepost.merge_upsert_or_delete('staging_t', 'target'::regclass, array['k'], array['text'],
  array['n'], array['bigint'], 'gone', array[1]::bigint[])
"""


@pytest.fixture
def order() -> LogOrder:
    """No matter of the log."""
    return "append"


@pytest.fixture
def conn(conn: Connection) -> Connection:
    conn.execute("create table target (k text primary key, n bigint)")
    conn.execute(
        "create unlogged table milepost.staging_t (k text, n bigint, gone boolean, _attempt bigint)"
    )
    return conn


def merge(conn: Connection, *rows: Row) -> int:
    with conn.cursor() as cursor:
        cursor.execute("truncate milepost.staging_t")
        # Of an attempt that does not count.
        cursor.execute("insert into milepost.staging_t values ('a', 9, true, 2), ('z', 9, null, 2)")
        cursor.executemany("insert into milepost.staging_t values (%s, %s, %s, 1)", rows)
    count: int = one(conn.execute(MERGE).fetchone())[0]
    return count


def found(conn: Connection) -> list[tuple[str, int | None]]:
    return conn.execute("select k, n from target order by k").fetchall()


def test_true_deletes_and_null_and_false_do_not(conn: Connection) -> None:
    merge(conn, ("a", 1, False), ("b", 2, None), ("c", 3, False))
    assert merge(conn, ("a", 5, True), ("b", 6, None), ("c", 7, False), ("d", 8, True)) == 3
    assert found(conn) == [("b", 6), ("c", 7)]


def test_a_key_that_was_deleted_is_inserted_again(conn: Connection) -> None:
    for row in [("a", 1, False), ("a", 2, True), ("a", 3, False)]:
        merge(conn, row)
    assert found(conn) == [("a", 3)]


@pytest.mark.parametrize("key", ["a", "new"])
@pytest.mark.parametrize(
    "gone", [(True, False), (False, True), (True, True), (None, True), (False, False)]
)
def test_a_key_that_comes_twice_is_refused(
    conn: Connection, key: str, gone: tuple[bool | None, bool]
) -> None:
    merge(conn, ("a", 1, False))
    with pytest.raises(pg.CardinalityViolation):
        merge(conn, *((key, 2, is_gone) for is_gone in gone))
    assert found(conn) == [("a", 1)]


@pytest.mark.parametrize("gone", [True, False])
def test_a_null_in_the_key_is_refused(conn: Connection, gone: bool) -> None:
    with pytest.raises(pg.NotNullViolation) as refused:
        merge(conn, ("a", 1, False), (None, 2, gone))
    assert refused.value.diag.column_name == "k"


def last_of_each(rows: Sequence[Row]) -> list[Row]:
    """As the function of a pipeline does within its batch."""
    return list({row[0]: row for row in rows}.values())


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.sampled_from([None, False, True])),
        max_size=12,
    ),
    cuts=st.sets(st.integers(1, 11)),
)
def test_any_cutting_into_batches_gives_the_same(
    conn: Connection, rows: list[Row], cuts: set[int]
) -> None:
    conn.execute("truncate target")
    for first, behind in pairwise([0, *sorted(cuts), 12]):
        merge(conn, *last_of_each(rows[first:behind]))
    expected = [(key, value) for key, value, gone in last_of_each(rows) if not gone]
    assert found(conn) == sorted(expected, key=str)
