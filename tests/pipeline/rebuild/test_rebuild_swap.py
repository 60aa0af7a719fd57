"""The swapping transaction, without Spark: what it compares, what it waits for, whom it fences."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest
from psycopg.errors import LockNotAvailable

from milepost import Milepost, Position
from milepost.checkpoints import Answer, CheckpointKey, PostgresCheckpointStore
from milepost.db import Connection
from milepost.errors import UnknownPipeline, UnknownVersion, VersionInUse
from milepost.pipeline import admin, versions
from tests.waiting import wait_until

pytestmark = pytest.mark.parametrize("order", ["append"])
SCHEMA = "milepost"
OLD, NEW = CheckpointKey("p", 1), CheckpointKey("p", 2)
TEN, ELEVEN, TWELVE = Position(0, 10), Position(0, 11), Position(0, 12)


@pytest.fixture(autouse=True)
def two_versions(conn: Connection) -> None:
    """Version 1 is active and shown; a rebuild has filled version 2."""
    for version in (1, 2):
        conn.execute(f"create table t__v{version} as select {version} as version")
        conn.execute(
            "insert into milepost.pipelines (name, version, code_version, sink, target_schema,"
            " target, target_table, is_active, built_at) values ('p', %s, %s, 'append t', 'public',"
            " 't', %s, %s, case when %s then now() end)",
            (version, version, f"t__v{version}", version == 1, version == 1),
        )
    conn.execute("create view t as select * from t__v1")


def store(conn: Connection, key: CheckpointKey, to: Position, after: Position | None) -> Answer:
    return PostgresCheckpointStore(conn, SCHEMA).store(key, after, to)


def shown(conn: Connection) -> int:
    row = conn.execute("select version from t").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("new", "answer", "version"),
    [(TEN, "behind", 1), (ELEVEN, "swapped", 2), (TWELVE, "swapped", 2)],
)
def test_it_swaps_only_if_the_new_version_has_come_as_far(
    conn: Connection, new: Position, answer: str, version: int
) -> None:
    store(conn, OLD, ELEVEN, None)
    store(conn, NEW, new, None)
    assert versions.swap(conn, "p", SCHEMA, 1, 2) == answer
    assert shown(conn) == version
    assert [v.is_active for v in versions.load_versions(conn, "p", SCHEMA)] == [
        version == 1,
        version == 2,
    ]


def test_it_waits_for_a_batch_of_the_old_version_and_then_compares(
    mp: Milepost, conn: Connection
) -> None:
    store(conn, OLD, TEN, None)
    store(conn, NEW, TEN, None)
    answers: list[str] = []
    with mp.connect() as other:
        with other.transaction():
            assert store(other, OLD, ELEVEN, TEN) is Answer.STORED
            swapping = threading.Thread(target=lambda: answers.append(swap_in(mp)))
            swapping.start()
            wait_until(lambda: is_waiting(conn))
        swapping.join(30)
    assert answers == ["behind"]
    assert shown(conn) == 1


def swap_in(mp: Milepost) -> str:
    """As a rebuild does it: whoever has waited for two seconds in vain tries again."""
    with mp.connect() as conn:
        while True:
            with suppress(LockNotAvailable):
                return versions.swap(conn, "p", SCHEMA, 1, 2)


def is_waiting(conn: Connection) -> bool:
    query = "select exists (select from pg_locks where not granted)"
    row = conn.execute(query).fetchone()
    return row is not None and bool(row[0])


def test_both_versions_are_fenced_by_a_swap(conn: Connection) -> None:
    for key in (OLD, NEW):
        store(conn, key, TEN, None)
    assert versions.swap(conn, "p", SCHEMA, 1, 2) == "swapped"
    for key in (OLD, NEW):
        assert store(conn, key, ELEVEN, TEN) is Answer.FENCED


def test_a_swap_from_a_version_that_is_not_active_changes_nothing(conn: Connection) -> None:
    for key in (OLD, NEW):
        store(conn, key, TEN, None)
    assert versions.swap(conn, "p", SCHEMA, None, 2) == "changed"
    assert versions.swap(conn, "p", SCHEMA, 1, 3) == "missing"
    conn.execute("drop table t__v2")
    assert versions.swap(conn, "p", SCHEMA, 1, 2) == "missing"
    assert shown(conn) == 1


def test_a_pause_outlives_a_swap_and_a_hold_does_not(conn: Connection) -> None:
    for key in (OLD, NEW):
        store(conn, key, TEN, None)
    admin.set_paused(conn, SCHEMA, "p", is_paused=True)
    versions.hold(conn, OLD, SCHEMA, 60)
    versions.swap(conn, "p", SCHEMA, 1, 2)
    found = conn.execute(
        "select version, is_paused, hold_until from milepost.pipelines where is_active"
    ).fetchall()
    assert found == [(2, True, None)]


def test_a_rollback_needs_no_comparison_and_can_be_undone(conn: Connection) -> None:
    store(conn, OLD, TEN, None)
    store(conn, NEW, TWELVE, None)
    versions.swap(conn, "p", SCHEMA, 1, 2)
    assert admin.roll_back(conn, SCHEMA, "p") == (2, 1)
    assert shown(conn) == 1
    with pytest.raises(UnknownVersion, match="There are: 2"):
        admin.roll_back(conn, SCHEMA, "p")
    assert admin.roll_back(conn, SCHEMA, "p", 2) == (1, 2)
    assert shown(conn) == 2
    with pytest.raises(VersionInUse, match="the active one"):
        admin.drop(conn, SCHEMA, "p", 2)
    admin.drop(conn, SCHEMA, "p", 1)
    assert [v.version for v in versions.load_versions(conn, "p", SCHEMA)] == [2]
    with pytest.raises(UnknownPipeline, match="There are: p"):
        admin.drop(conn, SCHEMA, "q", 1)


def test_readers_of_the_view_are_not_queued_for_long_behind_a_swap(
    mp: Milepost, conn: Connection
) -> None:
    for key in (OLD, NEW):
        store(conn, key, TEN, None)
    with mp.connect() as reader, reader.transaction():
        shown(reader)
        with pytest.raises(LockNotAvailable):
            versions.swap(conn, "p", SCHEMA, 1, 2)
    assert versions.swap(conn, "p", SCHEMA, 1, 2) == "swapped"
