"""Claims in SQL: made once, held by one, by the server's clock, with an epoch that fences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Barrier

import psycopg
import pytest

from milepost import db
from milepost.checkpoints import Answer, CheckpointKey, PostgresCheckpointStore
from milepost.db import Connection
from milepost.records import Position, Segment
from tests.integration.processors.segments.claiming import (
    KEY,
    START,
    claims,
    ends,
    epochs,
    expire,
    masks,
    owners,
    positions,
)
from tests.unit.processors.segments.model import initial_segments

A, B = claims("a"), claims("b")
MANY = 8


@pytest.fixture
def other(url: str) -> Iterator[Connection]:
    with db.connect(url) as conn:
        yield conn


@pytest.mark.parametrize("number", [*range(1, 18), 100, 255, 256, 257])
def test_sql_and_python_begin_with_the_same_segments(conn: Connection, number: int) -> None:
    rows = conn.execute("select id, mask from milepost.initial_segments(%s)", [number]).fetchall()
    assert [Segment(*row) for row in rows] == initial_segments(number)


def test_many_at_once_make_the_segments_once(url: str, conn: Connection) -> None:
    barrier = Barrier(MANY)

    def create(n: int) -> bool:
        with db.connect(url) as own:
            barrier.wait()
            return claims(str(n)).create(own, 4 + n, START)

    with ThreadPoolExecutor(MANY) as pool:
        made = list(pool.map(create, range(MANY)))
    assert made.count(True) == 1
    assert len(masks(conn)) == 4 + made.index(True)
    assert list(positions(conn)) == list(masks(conn))


def test_segments_inherit_the_checkpoint_of_an_unsegmented_processor_and_fence_it(
    conn: Connection,
) -> None:
    store = PostgresCheckpointStore(conn)
    store.store(KEY, None, Position(0, 7))
    assert A.create(conn, 3, START)
    assert positions(conn) == {0: 7, 1: 7, 2: 7}
    assert store.store(KEY, Position(0, 7), Position(0, 8)) is Answer.FENCED


def test_many_at_once_never_claim_the_same_segment(url: str, conn: Connection) -> None:
    A.create(conn, 16, START)
    barrier = Barrier(MANY)

    def claim(n: int) -> list[tuple[int, int]]:
        found = []
        with db.connect(url) as own:
            barrier.wait()
            for _ in range(6):
                found += [(c.segment.id, c.epoch) for c in claims(str(n)).claim(own, 1)]
        return found

    with ThreadPoolExecutor(MANY) as pool:
        claimed = [each for found in pool.map(claim, range(MANY)) for each in found]
    assert Counter(claimed) == Counter({(id_, 2): 1 for id_ in range(16)})


def test_a_claim_that_has_not_expired_is_nobody_elses(conn: Connection) -> None:
    A.create(conn, 2, START)
    assert len(A.claim(conn, 2)) == 2
    assert B.claim(conn, 2) == []
    expire(conn, "a")
    assert len(B.claim(conn, 2)) == 2
    assert owners(conn) == {0: "b", 1: "b"}


def test_every_claim_raises_the_epoch_of_segment_and_checkpoint(conn: Connection) -> None:
    A.create(conn, 1, START)
    for epoch in range(2, 6):
        (claim,) = A.claim(conn, 1)
        assert claim.epoch == epoch == epochs(conn)[0]
        A.release(conn, 0, epoch)


def test_a_stale_owners_store_is_fenced_and_his_effects_roll_back(
    conn: Connection, other: Connection
) -> None:
    conn.execute("create table effects (n integer)")
    A.create(conn, 1, START)
    (stale,) = A.claim(conn, 1)
    expire(conn, "a")
    (fresh,) = B.claim(other, 1)
    for claim, expected in ((stale, Answer.FENCED), (fresh, Answer.STORED)):
        with conn.transaction() as transaction:
            conn.execute("insert into effects values (%s)", [claim.epoch])
            answer = PostgresCheckpointStore(conn).store(
                CheckpointKey("shared", 1, 0), START, Position(0, 5), epoch=claim.epoch
            )
            assert answer is expected
            if answer is not Answer.STORED:
                raise psycopg.Rollback(transaction)
    assert conn.execute("select n from effects").fetchall() == [(fresh.epoch,)]


def test_a_segment_whose_checkpoint_is_locked_by_a_batch_is_left_for_later(
    conn: Connection, other: Connection
) -> None:
    A.create(conn, 2, START)
    (claim,) = A.claim(conn, 1)
    expire(conn, "a")
    with other.transaction():
        PostgresCheckpointStore(other).store(
            CheckpointKey("shared", 1, 0), START, Position(0, 5), epoch=claim.epoch
        )
        assert [c.segment.id for c in B.claim(conn, 2)] == [1]
    (taken,) = B.claim(conn, 2)
    assert taken.position == Position(0, 5)


def test_extending_does_not_wait_for_a_batch(conn: Connection, other: Connection) -> None:
    A.create(conn, 1, START)
    (claim,) = A.claim(conn, 1)
    with other.transaction():
        PostgresCheckpointStore(other).store(
            CheckpointKey("shared", 1, 0), START, Position(0, 5), epoch=claim.epoch
        )
        conn.execute("set lock_timeout = '100ms'")
        assert A.tend(conn).epochs == {0: claim.epoch}


def test_a_beat_extends_by_the_servers_clock(conn: Connection) -> None:
    A.create(conn, 1, START)
    claims("a", 5.0).claim(conn, 1)
    before = clock(conn)
    claims("a", 100.0).tend(conn)
    after, extended = clock(conn), timedelta(seconds=100)
    assert before + extended <= ends(conn)[0] <= after + extended


def clock(conn: Connection) -> datetime:
    """The server's."""
    found: datetime = db.one(conn.execute("select clock_timestamp()").fetchone())[0]
    return found


@pytest.mark.parametrize(("segments", "instances"), [(8, 1), (8, 3), (16, 4), (2, 4), (7, 2)])
def test_the_shares_are_fair_and_add_up(conn: Connection, segments: int, instances: int) -> None:
    A.create(conn, segments, START)
    living = [claims(f"instance {n}") for n in range(instances)]
    for each in living:
        each.tend(conn)
    shares = [each.tend(conn).share for each in living]
    assert sum(shares) == segments
    assert max(shares) - min(shares) <= 1


def test_a_dead_instance_has_no_share(conn: Connection) -> None:
    A.create(conn, 8, START)
    A.tend(conn)
    assert B.tend(conn).share == 4
    expire(conn, "a")
    assert B.tend(conn).share == 8
    assert conn.execute("select owner from milepost.instances").fetchall() == [("b",)]


def test_a_beat_tells_when_the_next_claim_of_others_expires(conn: Connection) -> None:
    A.create(conn, 2, START)
    assert B.tend(conn).next_expiry_seconds is None
    claims("a", 20.0).claim(conn, 1)
    before = clock(conn)
    expiry = B.tend(conn).next_expiry_seconds
    after = clock(conn)
    assert expiry is not None
    assert before <= ends(conn)[0] - timedelta(seconds=expiry) <= after


def test_release_is_by_epoch_only(conn: Connection) -> None:
    A.create(conn, 1, START)
    (stale,) = A.claim(conn, 1)
    expire(conn, "a")
    (fresh,) = B.claim(conn, 1)
    assert not A.release(conn, 0, stale.epoch)
    assert owners(conn) == {0: "b"}
    assert B.release(conn, 0, fresh.epoch)
    assert owners(conn) == {0: None}


def test_leaving_gives_everything_back(conn: Connection) -> None:
    A.create(conn, 4, START)
    A.tend(conn)
    A.claim(conn, 3)
    A.leave(conn)
    assert set(owners(conn).values()) == {None}
    assert B.tend(conn).share == 4


def test_processors_do_not_disturb_each_other(conn: Connection) -> None:
    A.create(conn, 2, START)
    elsewhere = replace(A, key=CheckpointKey("another"))
    elsewhere.create(conn, 4, START)
    assert len(A.claim(conn, 9)) == 2
    assert len(elsewhere.claim(conn, 9)) == 4
    elsewhere.leave(conn)
    assert len(A.tend(conn).epochs) == 2


# What a, b and c take at most; None: their share.
@pytest.mark.parametrize(
    ("number", "at_most", "expected"),
    [
        (8, {"a": None, "b": None, "c": None}, [3, 3, 2]),
        (8, {"a": 0, "b": None, "c": None}, [0, 4, 4]),
        (8, {"a": None, "b": 1, "c": None}, [4, 1, 3]),
        (4, {"a": None, "b": None, "c": 0}, [2, 2, 0]),
        (8, {"a": 7, "b": None, "c": None}, [3, 3, 2]),  # no limit, where its share is smaller
        (8, {"a": 0, "b": 7, "c": None}, [0, 4, 4]),
        (8, {"a": 0, "b": 0, "c": None}, [0, 0, 8]),
        (8, {"a": 0, "b": 0, "c": 0}, [3, 3, 2]),  # or nobody would take them
        (8, {"a": 0, "b": 7, "c": 0}, [1, 7, 0]),
        (1, {"a": 0, "b": None, "c": None}, [0, 1, 0]),
    ],
)
def test_what_some_do_not_take_the_others_share(
    conn: Connection, number: int, at_most: dict[str, int | None], expected: list[int]
) -> None:
    assert A.create(conn, number, START)
    for owner, limit in at_most.items():
        claims(owner).tend(conn)
        claims(owner).limit(conn, limit)
    assert [claims(owner).tend(conn).share for owner in at_most] == expected


def test_an_instance_that_takes_its_share_again_says_so(conn: Connection) -> None:
    assert A.create(conn, 8, START)
    A.tend(conn)
    B.tend(conn)
    A.limit(conn, 1)
    assert (A.tend(conn).share, B.tend(conn).share) == (1, 7)
    A.limit(conn, None)
    assert (A.tend(conn).share, B.tend(conn).share) == (4, 4)


def test_what_an_instance_leaves_to_others_it_does_not_claim(conn: Connection) -> None:
    assert A.create(conn, 4, START)
    assert [c.segment.id for c in A.claim(conn, 4, left_to_others=[0, 2])] == [1, 3]
    assert A.claim(conn, 4, left_to_others=[0, 1, 2, 3]) == []
    assert [c.segment.id for c in B.claim(conn, 4)] == [0, 2]
