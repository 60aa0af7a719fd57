"""Several instances store at once: one of them gets through, and the others are told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib.resources import files

import psycopg
import pytest

from milepost import db, sql
from milepost.checkpoints import Answer, Checkpoint, CheckpointKey, PostgresCheckpointStore
from milepost.db import Connection
from milepost.records import Position
from tests.waiting import wait_until

KEY = CheckpointKey("contended")
PATIENCE_SECONDS = 30.0
START = Position(0, 10)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


@pytest.fixture
def competitors(url: str) -> Iterator[list[Connection]]:
    with ExitStack() as stack:
        found = [stack.enter_context(db.connect(url)) for _ in range(8)]
        wait_for_as_long_as_it_takes(found[0])
        yield found


def wait_for_as_long_as_it_takes(conn: Connection) -> None:
    """A busy machine may hold up the competitor that is waited for, for longer than ten seconds,
    the limit that a store has."""
    conn.execute("alter function milepost.store_checkpoint set lock_timeout = '1h'")


@contextmanager
def stored_by_another(
    other: Connection, expected: Position | None, new: Position
) -> Iterator[None]:
    """Within it, another instance has stored and not committed yet; it does so at the end."""
    with other.transaction():
        answer = PostgresCheckpointStore(other).store(KEY, expected, new, owner="other")
        assert answer is Answer.STORED
        yield


def is_waiting(conn: Connection, waiter: Connection) -> bool:
    row = conn.execute(
        "select cardinality(pg_blocking_pids(%s)) > 0", [waiter.info.backend_pid]
    ).fetchone()
    return bool(db.one(row)[0])


def storing(
    pool: ThreadPoolExecutor,
    conn: Connection,
    waiter: Connection,
    expected: Position | None,
    new: Position,
) -> Future[Answer]:
    """A store in another thread that waits for somebody's transaction by now."""
    answer = pool.submit(PostgresCheckpointStore(waiter).store, KEY, expected, new, owner="waiter")
    wait_until(lambda: is_waiting(conn, waiter) or answer.done())
    assert not answer.done(), "it did not wait"
    return answer


@pytest.mark.parametrize(
    ("theirs", "ours", "answer"),
    [
        (20, 30, Answer.FURTHER),
        (20, 15, Answer.FURTHER),
        (20, 20, Answer.IGNORED),
    ],
)
def test_a_store_waits_for_a_competitors_and_is_told_after_its_commit(
    pool: ThreadPoolExecutor,
    conn: Connection,
    competitors: list[Connection],
    theirs: int,
    ours: int,
    answer: Answer,
) -> None:
    PostgresCheckpointStore(conn).store(KEY, None, START)
    other, waiter, *_ = competitors
    with stored_by_another(other, START, Position(0, theirs)):
        waiting = storing(pool, conn, waiter, START, Position(0, ours))
    assert waiting.result(PATIENCE_SECONDS) is answer
    assert PostgresCheckpointStore(conn).load(KEY) == Checkpoint(Position(0, theirs), 0, "other")


@pytest.mark.parametrize(
    ("theirs", "ours", "answer"),
    [
        (20, 30, Answer.OLDER),
        (20, 15, Answer.FURTHER),
        (20, 20, Answer.IGNORED),
    ],
)
def test_a_first_store_waits_for_a_competitors_and_is_told_after_its_commit(
    pool: ThreadPoolExecutor,
    conn: Connection,
    competitors: list[Connection],
    theirs: int,
    ours: int,
    answer: Answer,
) -> None:
    other, waiter, *_ = competitors
    with stored_by_another(other, None, Position(0, theirs)):
        waiting = storing(pool, conn, waiter, None, Position(0, ours))
    assert waiting.result(PATIENCE_SECONDS) is answer
    assert PostgresCheckpointStore(conn).load(KEY) == Checkpoint(Position(0, theirs), 0, "other")


@pytest.mark.parametrize("expected", [None, START])
def test_a_store_that_waited_is_stored_after_the_competitors_rollback(
    pool: ThreadPoolExecutor,
    conn: Connection,
    competitors: list[Connection],
    expected: Position | None,
) -> None:
    if expected is not None:
        PostgresCheckpointStore(conn).store(KEY, None, expected)
    other, waiter, *_ = competitors
    with stored_by_another(other, expected, Position(0, 20)):
        waiting = storing(pool, conn, waiter, expected, Position(0, 15))
        raise psycopg.Rollback
    assert waiting.result(PATIENCE_SECONDS) is Answer.STORED
    assert PostgresCheckpointStore(conn).load(KEY) == Checkpoint(Position(0, 15), 0, "waiter")


def test_a_store_that_waited_while_the_claim_changed_hands_is_fenced(
    pool: ThreadPoolExecutor, conn: Connection, competitors: list[Connection]
) -> None:
    PostgresCheckpointStore(conn).store(KEY, None, START)
    other, waiter, *_ = competitors
    with other.transaction():
        other.execute("update milepost.checkpoints set epoch = epoch + 1")
        waiting = storing(pool, conn, waiter, START, Position(0, 20))
    assert waiting.result(PATIENCE_SECONDS) is Answer.FENCED
    store = PostgresCheckpointStore(conn)
    assert store.load(KEY) == Checkpoint(START, 1)
    assert store.store(KEY, START, Position(0, 20), epoch=1) is Answer.STORED


def test_a_store_that_waited_for_a_reset_is_told(
    pool: ThreadPoolExecutor, conn: Connection, competitors: list[Connection]
) -> None:
    PostgresCheckpointStore(conn).store(KEY, None, START)
    other, waiter, *_ = competitors
    with other.transaction():
        PostgresCheckpointStore(other).reset(KEY, Position.BEGINNING)
        waiting = storing(pool, conn, waiter, START, Position(0, 20))
    assert waiting.result(PATIENCE_SECONDS) is Answer.OLDER
    assert PostgresCheckpointStore(conn).load(KEY) == Checkpoint(Position.BEGINNING)


@pytest.mark.parametrize("expected", [None, START])
def test_a_competitor_that_never_ends_is_not_waited_for_for_ever(
    conn: Connection, competitors: list[Connection], expected: Position | None
) -> None:
    conn.execute("alter function milepost.store_checkpoint set lock_timeout = '200ms'")
    if expected is not None:
        PostgresCheckpointStore(conn).store(KEY, None, expected)
    other, waiter, *_ = competitors
    store = PostgresCheckpointStore(waiter).store
    held = stored_by_another(other, expected, Position(0, 20))
    with held, pytest.raises(psycopg.errors.LockNotAvailable):
        store(KEY, expected, Position(0, 15))
    assert PostgresCheckpointStore(conn).load(KEY) == Checkpoint(Position(0, 20), 0, "other")


@pytest.mark.parametrize("expected", [None, START])
def test_above_read_committed_a_lost_race_is_an_error_and_never_a_second_store(
    conn: Connection, competitors: list[Connection], expected: Position | None
) -> None:
    if expected is not None:
        PostgresCheckpointStore(conn).store(KEY, None, expected)
    other, *_ = competitors
    other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    store = PostgresCheckpointStore(other).store
    with other.transaction(force_rollback=True):
        other.execute("select 1 from milepost.checkpoints")  # what it sees from now on
        PostgresCheckpointStore(conn).store(KEY, expected, Position(0, 20))
        with pytest.raises(psycopg.errors.SerializationFailure):
            store(KEY, expected, Position(0, 30))
    assert PostgresCheckpointStore(conn).load(KEY) == Checkpoint(Position(0, 20))


def race(
    pool: ThreadPoolExecutor,
    competitors: list[Connection],
    key: CheckpointKey,
    expected: Position | None,
    ahead: int,
) -> list[Answer]:
    """What each is answered when all store from the same position at the same moment. Each
    wants to go to a position of its own, so that none is merely there already."""
    barrier = threading.Barrier(len(competitors))

    def store(number: int) -> Answer:
        barrier.wait(PATIENCE_SECONDS)
        mine = PostgresCheckpointStore(competitors[number])
        return mine.store(key, expected, Position(0, ahead + number), owner=str(number))

    return list(pool.map(store, range(len(competitors))))


def test_of_many_first_stores_at_once_one_is_stored_and_nobody_fails(
    pool: ThreadPoolExecutor, conn: Connection, competitors: list[Connection]
) -> None:
    for step in range(40):
        key = CheckpointKey(f"first-{step}")
        answers = race(pool, competitors, key, None, ahead=0)
        winner = answers.index(Answer.STORED)
        assert answers == [
            Answer.OLDER if number > winner else Answer.FURTHER if number < winner else answer
            for number, answer in enumerate(answers)
        ]
        found = PostgresCheckpointStore(conn).load(key)
        assert found == Checkpoint(Position(0, winner), 0, str(winner))


def test_of_many_stores_from_the_same_position_one_is_stored_at_every_step(
    pool: ThreadPoolExecutor, conn: Connection, competitors: list[Connection]
) -> None:
    current, store = START, PostgresCheckpointStore(conn)
    store.store(KEY, None, current)
    for _ in range(40):
        ahead = current.position + 1
        answers = race(pool, competitors, KEY, current, ahead)
        assert sorted(answers) == [Answer.STORED, *[Answer.FURTHER] * 7]
        winner = answers.index(Answer.STORED)
        found = store.load(KEY)
        assert found == Checkpoint(Position(0, ahead + winner), 0, str(winner))
        current = found.position


def take_out(conn: Connection, condition: str) -> None:
    """Replace the function by one that lacks a condition."""
    text = (files(sql) / "functions" / "store_checkpoint.sql").read_text("utf-8")
    assert text.count(condition) == 1
    conn.execute(sql.render(text.replace(condition, ""), sql.DEFAULT_SCHEMA).encode())
    wait_for_as_long_as_it_takes(conn)


def test_without_the_expected_position_in_the_condition_both_would_have_stored(
    pool: ThreadPoolExecutor, conn: Connection, competitors: list[Connection]
) -> None:
    """That the tests above can fail."""
    take_out(conn, 'and c."position" = (store_checkpoint.expected).position')
    PostgresCheckpointStore(conn).store(KEY, None, START)
    other, waiter, *_ = competitors
    with stored_by_another(other, START, Position(0, 20)):
        waiting = storing(pool, conn, waiter, START, Position(0, 30))
    assert waiting.result(PATIENCE_SECONDS) is Answer.STORED


def test_without_the_epoch_in_the_condition_a_stale_owner_would_have_stored(
    pool: ThreadPoolExecutor, conn: Connection, competitors: list[Connection]
) -> None:
    take_out(conn, "and c.epoch = store_checkpoint.epoch")
    PostgresCheckpointStore(conn).store(KEY, None, START)
    other, waiter, *_ = competitors
    with other.transaction():
        other.execute("update milepost.checkpoints set epoch = epoch + 1")
        waiting = storing(pool, conn, waiter, START, Position(0, 20))
    assert waiting.result(PATIENCE_SECONDS) is Answer.STORED
