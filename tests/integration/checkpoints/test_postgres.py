"""What is true of the checkpoints in PostgreSQL beyond what every store does."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import psycopg
import pytest

from milepost import Milepost, db, migrate
from milepost.checkpoints import Answer, Checkpoint, CheckpointKey, PostgresCheckpointStore
from milepost.db import Connection
from milepost.errors import NotMigrated
from milepost.records import Position


@pytest.fixture
def key() -> CheckpointKey:
    return CheckpointKey(f"processor-{uuid4()}")


def row_of(conn: Connection, key: CheckpointKey) -> Any:
    """The whole row, and the version of it that is stored."""
    return conn.execute(
        "select ctid, xmin, c.* from milepost.checkpoints as c where processor = %s",
        [key.processor],
    ).fetchone()


@pytest.mark.parametrize(
    ("expected", "new", "epoch", "answer"),
    [
        (Position(5, 5), Position(5, 5), 0, Answer.IGNORED),
        (Position(4, 9), Position(6, 1), 0, Answer.FURTHER),
        (Position(6, 1), Position(7, 1), 0, Answer.OLDER),
        (None, Position(7, 1), 0, Answer.OLDER),
        (Position(5, 5), Position(7, 1), 1, Answer.FENCED),
    ],
)
def test_whatever_is_not_stored_does_not_touch_the_row(
    shared_conn: Connection,
    key: CheckpointKey,
    expected: Position | None,
    new: Position,
    epoch: int,
    answer: Answer,
) -> None:
    store = PostgresCheckpointStore(shared_conn)
    store.store(key, None, Position(5, 5), owner="first")
    before = row_of(shared_conn, key)
    assert store.store(key, expected, new, epoch=epoch, owner="second") is answer
    assert row_of(shared_conn, key) == before


def test_a_store_is_part_of_the_callers_transaction(
    shared_conn: Connection, key: CheckpointKey
) -> None:
    store = PostgresCheckpointStore(shared_conn)
    with shared_conn.transaction(force_rollback=True):
        assert store.store(key, None, Position(1, 1)) is Answer.STORED
    assert store.load(key) is None
    store.store(key, None, Position(1, 1))
    with shared_conn.transaction(force_rollback=True):
        assert store.store(key, Position(1, 1), Position(2, 2)) is Answer.STORED
    assert store.load(key) == Checkpoint(Position(1, 1))


def test_every_store_says_when(shared_conn: Connection, key: CheckpointKey) -> None:
    """By the clock and not by the transaction's start: a batch may take long."""
    store = PostgresCheckpointStore(shared_conn)
    with shared_conn.transaction():
        for expected, new in ((None, 1), (1, 2)):
            started = clock(shared_conn)
            before = None if expected is None else Position(0, expected)
            store.store(key, before, Position(0, new))
            assert row_of(shared_conn, key)[-1] > started


def clock(conn: Connection) -> Any:
    return db.one(conn.execute("select clock_timestamp()").fetchone())[0]


@pytest.mark.parametrize("new", ["null", "row(null, 1)", "row(1, null)"])
@pytest.mark.parametrize("expected", ["null", "row(0, 1)"])
def test_a_new_position_that_is_null_is_refused(
    shared_conn: Connection, key: CheckpointKey, expected: str, new: str
) -> None:
    PostgresCheckpointStore(shared_conn).store(key, None, Position(0, 1))
    before = row_of(shared_conn, key)
    with pytest.raises(psycopg.errors.NullValueNotAllowed, match="must not be null"):
        call(shared_conn, key, expected, new)
    assert row_of(shared_conn, key) == before


@pytest.mark.parametrize(
    ("expected", "new"),
    [
        ("null", "row(0, -1)"),
        ("null", "row(-1, 5)"),
        ("row(0, 1)", "row(-1, 2)"),
        ("row(0, -1)", "row(0, 2)"),
        ("row(-1, 1)", "row(0, 2)"),
    ],
)
@pytest.mark.parametrize("is_new", [True, False])
def test_a_negative_position_is_refused(
    shared_conn: Connection, key: CheckpointKey, expected: str, new: str, is_new: bool
) -> None:
    if not is_new:
        PostgresCheckpointStore(shared_conn).store(key, None, Position(0, 1))
    before = row_of(shared_conn, key)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="not negative") as caught:
        call(shared_conn, key, expected, new)
    assert "The beginning is (0,0)" in str(caught.value.diag.message_hint)
    assert row_of(shared_conn, key) == before


@pytest.mark.parametrize("expected", ["null", "row(0, 1)"])
@pytest.mark.parametrize("is_new", [True, False])
def test_an_epoch_that_is_null_is_refused(
    shared_conn: Connection, key: CheckpointKey, expected: str, is_new: bool
) -> None:
    if not is_new:
        PostgresCheckpointStore(shared_conn).store(key, None, Position(0, 1), epoch=7)
    before = row_of(shared_conn, key)
    with pytest.raises(psycopg.errors.NullValueNotAllowed, match=r"epoch .* must not be null"):
        call(shared_conn, key, expected, "row(0, 2)", epoch="null")
    assert row_of(shared_conn, key) == before


@pytest.mark.parametrize("expected", ["null", "row(null, null)"])
def test_both_ways_to_write_that_none_is_expected_mean_the_same(
    shared_conn: Connection, key: CheckpointKey, expected: str
) -> None:
    assert call(shared_conn, key, expected, "row(0, 1)") == 1
    assert call(shared_conn, key, expected, "row(0, 1)") == 0
    assert call(shared_conn, key, expected, "row(0, 2)") == 3


def call(conn: Connection, key: CheckpointKey, expected: str, new: str, epoch: str = "0") -> Any:
    """As another language would."""
    statement = (
        f"select milepost.store_checkpoint(%s, 1, 0, {expected}::milepost.position, "
        f"{new}::milepost.position, {epoch})"
    )
    return db.one(conn.execute(statement.encode(), [key.processor]).fetchone())[0]


def test_a_statement_waits_no_longer_than_10_seconds_and_the_callers_limit_is_kept(
    shared_conn: Connection, key: CheckpointKey
) -> None:
    found = shared_conn.execute(
        "select proconfig from pg_proc where oid = 'milepost.store_checkpoint'::regproc"
    ).fetchone()
    assert found == (["lock_timeout=10s"],)
    with shared_conn.transaction():
        shared_conn.execute("set local lock_timeout = '77s'")
        PostgresCheckpointStore(shared_conn).store(key, None, Position(0, 1))
        assert shared_conn.execute("show lock_timeout").fetchone() == ("77s",)


def test_another_schema_has_checkpoints_of_its_own(conn: Connection, key: CheckpointKey) -> None:
    migrate.migrate(conn, "other")
    PostgresCheckpointStore(conn).store(key, None, Position(0, 1))
    other = PostgresCheckpointStore(conn, "other")
    assert other.load(key) is None
    assert other.store(key, None, Position(0, 2)) is Answer.STORED
    other.reset(key, Position(0, 3))
    assert other.load(key) == Checkpoint(Position(0, 3))
    assert PostgresCheckpointStore(conn).load(key) == Checkpoint(Position(0, 1))


def test_a_schema_that_is_not_there_is_named_with_the_command(
    mp: Milepost, conn: Connection, key: CheckpointKey
) -> None:
    store = PostgresCheckpointStore(conn, "elsewhere")
    for call_ in (
        lambda: store.load(key),
        lambda: store.store(key, None, Position(0, 1)),
        lambda: store.reset(key, Position(0, 1)),
    ):
        with pytest.raises(NotMigrated, match="milepost migrate --schema elsewhere"):
            call_()


def test_the_first_checkpoint_is_stored_once(shared_conn: Connection, key: CheckpointKey) -> None:
    store = PostgresCheckpointStore(shared_conn)
    assert store.first(key, lambda: Position(0, 7), "one") == Checkpoint(Position(0, 7), 0, "one")
    assert store.first(key, lambda: Position(0, 9), "two") == Checkpoint(Position(0, 7), 0, "one")


def test_of_two_first_checkpoints_the_quicker_one_is_kept(
    shared_conn: Connection, key: CheckpointKey
) -> None:
    store = PostgresCheckpointStore(shared_conn)

    def start_too_late() -> Position:
        store.store(key, None, Position(0, 7), owner="quicker")
        return Position(0, 9)

    found = store.first(key, start_too_late, "slower")
    assert found == Checkpoint(Position(0, 7), 0, "quicker")
