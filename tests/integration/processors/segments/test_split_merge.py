"""Splitting and merging in SQL: positions, epochs and floors."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest
from psycopg.errors import LockNotAvailable

from milepost import Milepost, db
from milepost.checkpoints import Answer, CheckpointKey, PostgresCheckpointStore
from milepost.db import Connection
from milepost.errors import CannotMerge, CannotSplit, NoPartner, SegmentsBusy, UnknownSegment
from milepost.processors.segments import operations
from milepost.processors.segments.claims import Claim
from milepost.processors.segments.operations import Operator, Wanted
from milepost.processors.segments.split_merge import above_floors
from milepost.records import Position, RecordedMessage, key_hash
from tests.integration.processors.conftest import Put
from tests.integration.processors.segments.claiming import (
    KEY,
    START,
    claims,
    epochs,
    expire,
    masks,
    owners,
    positions,
)

A = claims("a")
Connect = Callable[[], AbstractContextManager[Connection]]


@pytest.fixture
def connect(url: str) -> Connect:
    return lambda: db.connect(url)


def operator(name: str = "operator", ids: list[int] | None = None) -> Operator:
    """Nothing extends its claims in these tests: they outlast whatever a busy machine does."""
    return Operator(name, KEY, ids, "milepost", claim_seconds=600.0)


def move(conn: Connection, claim: Claim, to: int) -> None:
    key = CheckpointKey(KEY.processor, KEY.version, claim.segment.id)
    answer = PostgresCheckpointStore(conn).store(
        key, claim.position, Position(0, to), epoch=claim.epoch
    )
    assert answer is Answer.STORED


def advance(conn: Connection, **to: int) -> None:
    """Claim everything, move some checkpoints (`s0=5`), release everything."""
    for claim in A.claim(conn, 100):
        if (position := to.get(f"s{claim.segment.id}")) is not None:
            move(conn, claim, position)
    A.leave(conn)


def floors(conn: Connection) -> set[tuple[int, int, int, int]]:
    """Segment, then id, mask and position of each floor."""
    return set(
        conn.execute("select segment, id, mask, position from milepost.segment_floors").fetchall()
    )


def test_the_halves_go_on_from_where_the_whole_was(conn: Connection, connect: Connect) -> None:
    A.create(conn, 1, START)
    advance(conn, s0=42)
    operations.split(connect, "milepost", KEY)
    assert masks(conn) == {0: 1, 1: 1}
    assert positions(conn) == {0: 42, 1: 42}
    assert owners(conn) == {0: None, 1: None}
    assert conn.execute("select segments from milepost.processors").fetchall() == [(2,)]


def test_the_merged_one_goes_on_from_the_lower_and_keeps_a_floor_for_the_other(
    conn: Connection, connect: Connect
) -> None:
    A.create(conn, 2, START)
    advance(conn, s0=10, s1=30)
    assert operations.merge(connect, "milepost", KEY, 1) == 0
    assert masks(conn) == {0: 0}
    assert positions(conn) == {0: 10}
    assert floors(conn) == {(0, 1, 1, 30)}
    assert conn.execute("select segments from milepost.processors").fetchall() == [(1,)]


def test_equal_checkpoints_need_no_floor(conn: Connection, connect: Connect) -> None:
    A.create(conn, 2, START)
    advance(conn, s0=30, s1=30)
    operations.merge(connect, "milepost", KEY)
    assert floors(conn) == set()


def test_floors_are_split_and_merged_along(conn: Connection, connect: Connect) -> None:
    A.create(conn, 2, START)
    advance(conn, s0=10, s1=30)
    operations.merge(connect, "milepost", KEY)
    operations.split(connect, "milepost", KEY)
    assert floors(conn) == {(1, 1, 1, 30)}
    operations.split(connect, "milepost", KEY, 1)
    assert floors(conn) == {(1, 1, 1, 30), (3, 1, 1, 30)}
    advance(conn, s1=20)  # still below the floor
    operations.merge(connect, "milepost", KEY, 3)
    assert positions(conn) == {0: 10, 1: 10}
    assert floors(conn) == {(1, 1, 1, 30), (1, 1, 3, 20)}


def test_floors_below_the_checkpoint_are_pruned(conn: Connection, connect: Connect) -> None:
    A.create(conn, 2, START)
    advance(conn, s0=10, s1=30)
    operations.merge(connect, "milepost", KEY)
    advance(conn, s0=30)
    (claim,) = A.claim(conn, 1)
    assert claim.floors == ()
    assert floors(conn) == set()


def test_epochs_only_grow_so_that_no_stale_owner_ever_matches(
    conn: Connection, connect: Connect
) -> None:
    A.create(conn, 2, START)
    highest: dict[int, int] = {}
    for n in range(6):
        for id_, epoch in epochs(conn).items():
            assert epoch > highest.get(id_, 0)
            highest[id_] = epoch
        (operations.merge if n % 2 == 0 else operations.split)(connect, "milepost", KEY)


def test_only_the_holder_of_the_claim_splits_and_merges(conn: Connection) -> None:
    A.create(conn, 2, START)
    somebody = operator()
    held, other = somebody.want(conn)
    assert held.is_claimed
    stale = Wanted(held.segment, held.epoch - 1, True, None)
    assert somebody.split(conn, stale) is None
    assert somebody.merge(conn, stale, other) is None
    assert somebody.merge(conn, other, stale) is None
    assert masks(conn) == {0: 1, 1: 1}
    somebody.leave(conn)
    assert somebody.split(conn, held) is None


def test_a_stale_owner_of_the_whole_cannot_store_over_one_half_of_it(
    conn: Connection, connect: Connect
) -> None:
    assert stale_store(conn, connect) is Answer.FENCED


def test_without_comparing_epochs_he_could(conn: Connection, connect: Connect) -> None:
    """And his effects on the keys of the other half would happen twice."""
    comparison = "and c.epoch = store_checkpoint.epoch"
    row = conn.execute(
        "select pg_get_functiondef(oid) from pg_proc where proname = 'store_checkpoint'"
    ).fetchone()
    assert row is not None
    assert comparison in row[0]
    conn.execute(row[0].replace(comparison, ""))
    assert stale_store(conn, connect) is Answer.STORED


def stale_store(conn: Connection, connect: Connect) -> Answer:
    """Of an owner whose claim expired, and whose segment was split meanwhile."""
    A.create(conn, 1, START)
    (stale,) = A.claim(conn, 1)
    expire(conn, "a")
    operations.split(connect, "milepost", KEY)
    key = CheckpointKey(KEY.processor, KEY.version, 0)
    return PostgresCheckpointStore(conn).store(key, START, Position(0, 9), epoch=stale.epoch)


def test_what_is_not_two_halves_is_not_merged(conn: Connection) -> None:
    A.create(conn, 4, START)
    somebody = operator()
    zero, one, two, _three = somebody.want(conn)
    with pytest.raises(CannotMerge):
        somebody.merge(conn, zero, one)
    assert somebody.merge(conn, two, zero) == 0


def test_the_finest_segment_is_not_split(conn: Connection) -> None:
    A.create(conn, 1, START)
    conn.execute("update milepost.segments set mask = 2147483647")
    somebody = operator()
    with pytest.raises(CannotSplit):
        somebody.split(conn, somebody.want(conn)[0])


def test_segments_that_are_not_there_or_have_no_other_half_are_refused(
    conn: Connection, connect: Connect
) -> None:
    A.create(conn, 3, START)  # 0 and 2 are halves; 1 is as wide as both
    with pytest.raises(UnknownSegment):
        operations.split(connect, "milepost", KEY, 9)
    with pytest.raises(NoPartner, match="is split"):
        operations.merge(connect, "milepost", KEY, 1)
    operations.merge(connect, "milepost", KEY)
    operations.merge(connect, "milepost", KEY)
    with pytest.raises(NoPartner, match="only one"):
        operations.merge(connect, "milepost", KEY)
    with pytest.raises(UnknownSegment, match="not segmented"):
        operations.split(connect, "milepost", CheckpointKey("another"))


def test_an_operator_waits_for_the_owner_and_gives_up_in_time(
    conn: Connection, connect: Connect
) -> None:
    A.create(conn, 1, START)
    A.claim(conn, 1)
    with pytest.raises(SegmentsBusy, match="held by a"):
        operations.split(connect, "milepost", KEY, timeout=0.05)
    assert owners(conn) == {0: "a"}
    assert A.tend(conn).wanted == frozenset()  # and does not block it afterwards


def test_an_operator_waits_for_a_transaction_that_has_locked_a_segment(
    conn: Connection, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For longer than its function waits for a lock."""
    A.create(conn, 1, START)
    conn.execute("alter function milepost.want_segments set lock_timeout = '1ms'")
    want = Operator.want

    def want_until_refused(self: Operator, beside: Connection) -> list[Wanted]:
        try:
            return want(self, beside)
        except LockNotAvailable:
            holding.commit()
            raise

    with connect() as holding:
        holding.autocommit = False
        holding.execute("select from milepost.segments for update")
        with pytest.raises(SegmentsBusy, match="a transaction has locked a row"):
            operations.split(connect, "milepost", KEY, timeout=0.05)
        monkeypatch.setattr(Operator, "want", want_until_refused)
        operations.split(connect, "milepost", KEY)
    assert len(owners(conn)) == 2


def test_nobody_else_claims_what_an_operator_wants(conn: Connection, connect: Connect) -> None:
    A.create(conn, 2, START)
    somebody = operator(ids=[0])
    A.claim(conn, 2)
    assert not somebody.want(conn)[0].is_claimed
    assert A.tend(conn).wanted == {0}
    A.leave(conn)
    assert [claim.segment.id for claim in A.claim(conn, 2)] == [1]
    assert somebody.want(conn)[0].is_claimed


@pytest.mark.parametrize("claim_seconds", [2.0, 600.0])
def test_an_operators_claim_lasts_as_long_as_those_of_the_instances(
    conn: Connection, connect: Connect, claim_seconds: float
) -> None:
    """If it dies, its segments wait for no longer; on a slow machine, it keeps them as long."""
    instance = claims("a", claim_seconds)
    assert instance.create(conn, 2, START)
    instance.tend(conn)
    # Whatever holds this test up, the instance is alive meanwhile.
    conn.execute("update milepost.instances set alive_until = 'infinity'")
    asked = """
        select clock_timestamp(), min(least(claimed_until, wanted_until)),
          max(greatest(claimed_until, wanted_until)) from milepost.segments
    """
    before, _, _ = db.one(conn.execute(asked).fetchone())
    with operations.claimed(connect, "milepost", KEY):
        _, first, last = db.one(conn.execute(asked).fetchone())
        after, _, _ = db.one(conn.execute(asked).fetchone())
    as_long = timedelta(seconds=claim_seconds)
    assert before + as_long <= first <= last <= after + as_long


def test_where_no_instance_runs_an_operators_claim_lasts_for_ten_seconds(
    conn: Connection, connect: Connect
) -> None:
    instance = claims("a", 600.0)
    assert instance.create(conn, 2, START)
    instance.tend(conn)
    instance.leave(conn)
    with operations.claimed(connect, "milepost", KEY) as (operator, _):
        assert operator.claim_seconds == operations.CLAIM_SECONDS == 10.0


def test_two_operators_do_not_wait_for_each_other(conn: Connection) -> None:
    A.create(conn, 2, START)
    one, two = operator("one", [0]), operator("two", [1, 0])
    assert one.want(conn)
    assert two.want(conn) == []
    one.leave(conn)
    assert all(wanted.is_claimed for wanted in two.want(conn))


def test_balance_splits_the_segment_that_lags_most(
    mp: Milepost, conn: Connection, connect: Connect, put: Put
) -> None:
    A.create(conn, 2, START)
    assert operations.balance(connect, "milepost", KEY) is None
    last = put(40, keys=40)[-1].position
    behind, ahead = (0, 1) if key_hash("key-0") & 1 == 0 else (1, 0)
    advance(conn, **{f"s{ahead}": last})
    halves = operations.balance(connect, "milepost", KEY)
    assert halves is not None
    assert [half.id for half in halves] == [behind, behind + 2]


def test_whatever_is_split_and_merged_every_message_is_delivered_once_and_in_order(
    mp: Milepost, conn: Connection, connect: Connect, put: Put
) -> None:
    """A model of a processor that handles a few messages of a random segment, then splits or
    merges at random; in the end the effects equal the log."""
    rng = random.Random(7)
    put(300, keys=40)
    log = list(mp.read())
    A.create(conn, 3, START)
    handled: list[RecordedMessage] = []
    for _ in range(120):
        for claim in A.claim(conn, 100):
            if rng.random() < 0.5:
                handled += step(conn, claim, log, rng.randint(1, 30))
        A.leave(conn)
        change = rng.choice([operations.split, operations.merge, None])
        if change is operations.split and len(masks(conn)) < 12:
            operations.split(connect, "milepost", KEY, rng.choice(list(masks(conn))))
        elif change is operations.merge and len(masks(conn)) > 1:
            operations.merge(connect, "milepost", KEY)
    for claim in A.claim(conn, 100):
        handled += step(conn, claim, log, len(log))
    assert sorted(m.position for m in handled) == [m.position for m in log]
    for key in {m.key for m in log}:
        seen = [m.position for m in handled if m.key == key]
        assert seen == sorted(seen)


def step(
    conn: Connection, claim: Claim, log: list[RecordedMessage], count: int
) -> list[RecordedMessage]:
    """Handle the next messages of a segment, as a processor would."""
    waiting = [m for m in log if m.position > claim.position and claim.segment.holds(m.key)]
    taken = waiting[:count]
    if taken:
        move(conn, claim, taken[-1].position.position)
    return above_floors(taken, claim.floors)
