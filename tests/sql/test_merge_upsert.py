"""The merge of an upsert, without Spark: rows lie in staging, the function does the rest."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

from milepost import Milepost
from milepost.db import Connection, one
from milepost.sql import LogOrder
from tests.waiting import wait_until

MERGE = """
select milepost.merge_upsert('staging_t', 'target'::regclass, array['k'], array['text'],
  %(set)s::text[], %(set_types)s::text[], %(add)s::text[], %(add_types)s::text[],
  %(attempts)s::bigint[])
"""
ROWS = "select k, n, total from target order by k"


@pytest.fixture
def order() -> LogOrder:
    """No matter of the log."""
    return "append"


@pytest.fixture
def conn(conn: Connection) -> Connection:
    conn.execute("create table target (k text primary key, n bigint, total bigint)")
    conn.execute(
        "create unlogged table milepost.staging_t (k text, n bigint, total bigint, _attempt bigint)"
    )
    return conn


def stage(conn: Connection, *rows: tuple[str | None, int | None, int | None], tag: int = 1) -> None:
    with conn.cursor() as cursor:
        cursor.executemany(
            "insert into milepost.staging_t values (%s, %s, %s, %s)", [(*row, tag) for row in rows]
        )


def merge(
    conn: Connection,
    set_: Sequence[str] = (),
    add: Sequence[str] = (),
    attempts: Sequence[int] = (1,),
) -> int:
    parameters: dict[str, Any] = {
        "set": list(set_),
        "set_types": ["bigint"] * len(set_),
        "add": list(add),
        "add_types": ["bigint"] * len(add),
        "attempts": list(attempts),
    }
    count: int = one(conn.execute(MERGE, parameters).fetchone())[0]
    return count


def test_columns_to_add_are_summed_and_added_and_a_null_adds_nothing(conn: Connection) -> None:
    conn.execute("insert into target values ('a', 1, 10), ('b', null, 5), ('z', 7, 7)")
    stage(conn, ("a", 1, 1), ("a", 2, None), ("b", 3, None), ("c", None, None), ("c", 4, 9))
    stage(conn, ("a", 100, 100), tag=2)  # of an attempt that does not count
    assert merge(conn, add=["n", "total"]) == 3
    assert conn.execute(ROWS).fetchall() == [
        ("a", 4, 11), ("b", 3, 5), ("c", 4, 9), ("z", 7, 7)
    ]  # fmt: skip


def test_columns_to_set_are_replaced_beside_those_to_add(conn: Connection) -> None:
    conn.execute("insert into target values ('a', 1, 10)")
    stage(conn, ("a", 5, 5), ("b", 6, 6))
    assert merge(conn, ["n"], ["total"]) == 2
    assert conn.execute(ROWS).fetchall() == [("a", 5, 15), ("b", 6, 6)]


def test_a_key_alone_is_there_once(conn: Connection) -> None:
    conn.execute("insert into target values ('a', 1, 10)")
    stage(conn, ("a", 0, 0), ("b", 0, 0), ("b", 0, 0))
    merge(conn)
    assert conn.execute(ROWS).fetchall() == [("a", 1, 10), ("b", None, None)]


@pytest.mark.parametrize("key", ["a", "new"])
def test_a_key_that_comes_twice_with_columns_to_set_is_refused(conn: Connection, key: str) -> None:
    conn.execute("insert into target values ('a', 1, 10)")
    stage(conn, (key, 1, 1), (key, 2, 2))
    with pytest.raises(pg.CardinalityViolation):
        merge(conn, ["n"], ["total"])
    assert conn.execute(ROWS).fetchall() == [("a", 1, 10)]


def test_a_null_in_the_key_is_refused(conn: Connection) -> None:
    stage(conn, ("a", 1, 1), (None, 2, 2))
    with pytest.raises(pg.NotNullViolation):
        merge(conn, add=["n", "total"])


def test_a_row_that_somebody_inserts_meanwhile_is_added_to(mp: Milepost, conn: Connection) -> None:
    """The merge finds no row, waits for the other's, and must not fail then."""
    stage(conn, ("a", 1, 1), ("b", 2, 2))
    with mp.connect() as other, other.transaction():
        other.execute("insert into target values ('a', 100, 100)")
        merging = threading.Thread(target=merge, args=(conn,), kwargs={"add": ["n", "total"]})
        merging.start()
        wait_until(lambda: _waits(mp))
    merging.join()
    assert conn.execute(ROWS).fetchall() == [("a", 101, 101), ("b", 2, 2)]


def test_a_row_that_somebody_updates_meanwhile_loses_nothing(
    mp: Milepost, conn: Connection
) -> None:
    conn.execute("insert into target values ('a', 1, 1)")
    stage(conn, ("a", 10, 10))
    with mp.connect() as other, other.transaction():
        other.execute("update target set n = n + 100")
        merging = threading.Thread(target=merge, args=(conn,), kwargs={"add": ["n", "total"]})
        merging.start()
        wait_until(lambda: _waits(mp))
    merging.join()
    assert conn.execute(ROWS).fetchall() == [("a", 111, 11)]


def test_many_rows_are_joined_few_are_looked_up(conn: Connection) -> None:
    """What the planner does is told by the server's count of index scans."""
    conn.execute("insert into target select 'k' || n, n, n from generate_series(1, 20000) as n")
    conn.execute("analyze target")
    stage(conn, ("k1", 1, 1), ("k2", 1, 1))
    assert _index_scans_of(conn) == 2
    conn.execute("truncate milepost.staging_t")
    conn.execute(
        "insert into milepost.staging_t select 'k' || n, n, n, 1 from generate_series(1, 20000) n"
    )
    assert _index_scans_of(conn) == 0
    assert conn.execute("show enable_nestloop").fetchone() == ("on",)


def _index_scans_of(conn: Connection) -> int:
    with conn.transaction(force_rollback=True):
        before = _index_scans(conn)
        merge(conn, ["n"], ["total"])
        return _index_scans(conn) - before


def _index_scans(conn: Connection) -> int:
    """Also those that are not reported yet; how many descents the server counted."""
    query = "select pg_stat_get_xact_numscans('target_pkey'::regclass)"
    count: int = one(conn.execute(query).fetchone())[0]
    return count


def _waits(mp: Milepost) -> bool:
    with mp.connect() as conn:
        query = """
        select exists (select from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock')
        """
        return bool(one(conn.execute(query).fetchone())[0])


def test_somebody_elses_constraint_is_the_servers_error(conn: Connection) -> None:
    conn.execute("create unique index only_once on target (n)")
    conn.execute("insert into target values ('a', 1, 1)")
    stage(conn, ("b", 1, 1))
    with pytest.raises(psycopg.errors.UniqueViolation, match="only_once"):
        merge(conn, add=["n", "total"])
