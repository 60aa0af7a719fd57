"""Instances share the segments, whoever comes, goes, is slow or killed."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Lock
from typing import Any

import pytest

from milepost import Milepost, RecordedMessage, db
from milepost.db import Connection
from milepost.processors import Processor
from milepost.processors.segments import dispatch, operations, session
from milepost.processors.segments.claimed_segment import ClaimedSegment
from milepost.processors.segments.keeper import Keeper
from milepost.processors.segments.serve import Service
from milepost.records import key_hash
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, Instance, leave_all, running
from tests.integration.processors.segments import instance
from tests.integration.processors.segments.claiming import (
    KEY,
    epochs,
    expire,
    masks,
    owners,
    wait_until_extended,
)
from tests.waiting import wait_until

NAME = instance.NAME


def shares(conn: Connection) -> list[int]:
    """How many segments each owner has, once none is free."""
    found = owners(conn)
    return [] if None in found.values() else sorted(Counter(found.values()).values())


def passed(conn: Connection, seconds: float) -> bool:
    """Waits so long, by the server's clock."""
    conn.execute("select pg_sleep(%s)", [seconds])
    return True


@pytest.mark.parametrize(("instances", "expected"), [(2, [4, 4]), (3, [2, 3, 3]), (4, [2] * 4)])
def test_instances_share_the_segments_evenly(
    mp: Milepost, conn: Connection, instances: int, expected: list[int]
) -> None:
    processor = mp.processor(NAME, segments=8)(leave_all)
    with running(*[processor] * instances):
        wait_until(lambda: shares(conn) == expected)


def test_one_that_joins_gets_its_share_and_one_that_leaves_gives_it_back(
    mp: Milepost, conn: Connection, put: Put, effects: Effects
) -> None:
    processor = mp.processor(NAME, segments=8, claim_seconds=600.0)(leave_all)
    with running(processor):
        wait_until(lambda: shares(conn) == [8])
        with running(processor):
            wait_until(lambda: shares(conn) == [4, 4])
            processor.wait_for(put(100, keys=50)[-1], timeout=30)
        wait_until(lambda: shares(conn) == [8])  # long before any claim has expired
        processor.wait_for(put(100, keys=50)[-1], timeout=30)
    assert set(owners(conn).values()) == {None}
    assert conn.execute("select from milepost.instances").fetchall() == []
    assert effects.count() == 200


def test_there_may_be_more_instances_than_segments(mp: Milepost, conn: Connection) -> None:
    processor = mp.processor(NAME, segments=2)(leave_all)
    with running(*[processor] * 3):
        wait_until(lambda: shares(conn) == [1, 1])


def test_a_killed_instances_segments_are_taken_over_once_its_claims_have_expired(
    mp: Milepost, conn: Connection, url: str, put: Put, effects: Effects
) -> None:
    with instance.started(url, claim_seconds=2.0) as victim, instance.started(url, 2.0):
        wait_until(lambda: shares(conn) == [4, 4])
        victim.kill()
        victim.wait()
        put(200, keys=100)
        wait_until(lambda: shares(conn) == [8])
        effects.wait_for(200)
    assert sorted(effects.positions()) == [m.position for m in mp.read()]


def test_clocks_that_differ_by_two_hours_cause_no_double_owner(
    mp: Milepost, conn: Connection, url: str, put: Put, effects: Effects
) -> None:
    """A claim lasts for less than their clocks differ, and for longer than any machine stalls."""
    with instance.started(url, 60.0, hours=-1), instance.started(url, 60.0, hours=1):
        wait_until(lambda: shares(conn) == [4, 4])
        settled = epochs(conn)
        for _ in range(10):
            put(50, keys=50)
            passed(conn, 0.3)
        effects.wait_for(500)
        assert epochs(conn) == settled  # nobody took anything from the other
    assert len(set(effects.positions())) == effects.count() == 500


@contextmanager
def blocked(mp: Milepost, **options: object) -> Iterator[tuple[Processor, Event, list[int]]]:
    """A processor whose handler waits for the event; and the segments it is called for."""
    go_on, called = Event(), []

    @mp.processor(NAME, delivery="at_least_once", **options)  # type: ignore[arg-type]
    def handle(messages: list[RecordedMessage], segment: object) -> None:
        called.append(segment.id)  # type: ignore[attr-defined]
        go_on.wait(120)

    try:
        yield handle, go_on, called
    finally:
        go_on.set()


@contextmanager
def in_hand(mp: Milepost, conn: Connection, put: Put) -> Iterator[tuple[Instance, Instance]]:
    """Two instances: the first has the one segment in hand for as long as the block lasts, the
    second is there to take it as soon as it is free."""
    with blocked(mp, segments=1) as (processor, go_on, called), ExitStack() as stack:
        first = Instance(processor)
        wait_until(lambda: owners(conn) == {0: first.owner})
        put(100, keys=100)
        wait_until(lambda: called)
        second = Instance(processor)
        for each in (first, second):
            stack.callback(each.ends)
            stack.callback(each.stop.set)
        stack.callback(go_on.set)
        yield first, second


def test_a_claim_is_extended_while_a_handler_is_slow(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    """So it may be slower than the claim lasts."""
    with in_hand(mp, conn, put) as (first, _):
        before = epochs(conn)
        wait_until_extended(conn)
        assert epochs(conn) == before
        assert owners(conn) == {0: first.owner}


def test_extending_in_the_thread_that_handles_loses_the_claim(
    mp: Milepost, conn: Connection, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sabotage of the test above: as if one thread did both. What nobody extends expires."""
    handling, beat, serve = Lock(), Keeper.beat, Service.serve
    first: list[Keeper] = []

    def slow_beat(self: Keeper, conn: Connection) -> float:
        first.append(self)
        if self is first[0]:
            with handling:
                return beat(self, conn)
        return beat(self, conn)

    def locked_serve(self: Service, segment: ClaimedSegment, leases: object) -> None:
        if self.dispatch is not first[0].dispatch:
            serve(self, segment, leases)  # type: ignore[arg-type]
            return
        with handling:
            serve(self, segment, leases)  # type: ignore[arg-type]

    monkeypatch.setattr(Keeper, "beat", slow_beat)
    monkeypatch.setattr(Service, "serve", locked_serve)
    with in_hand(mp, conn, put) as (sabotaged, second):
        expire(conn, sabotaged.owner)
        wait_until(lambda: owners(conn) == {0: second.owner})


def test_a_pool_saturated_by_slow_handlers_keeps_its_claims(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    with (
        blocked(mp, segments=8, concurrency=2) as (processor, go_on, called),
        running(processor),
    ):
        wait_until(lambda: shares(conn) == [8])
        put(200, keys=100)
        wait_until(lambda: len(called) == 2)
        before = epochs(conn)
        wait_until_extended(conn)
        assert epochs(conn) == before
        assert shares(conn) == [8]
        assert len(called) == 2
        go_on.set()
        processor.wait_for(put(1)[-1], timeout=30)


def test_one_slow_segment_does_not_hold_back_the_others(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    go_on, lock = Event(), Lock()
    done: Counter[int] = Counter()

    @mp.processor(NAME, segments=4, batch_size=5, delivery="at_least_once")
    def handle(messages: list[RecordedMessage]) -> None:
        slice_ = key_hash(messages[0].key) & 3
        if slice_ == 1:
            go_on.wait(30)
        with lock:
            done[slice_] += len(messages)

    put(400, keys=200)
    expected = Counter(key_hash(m.key) & 3 for m in mp.read())
    with running(handle):
        try:
            wait_until(lambda: all(done[n] == expected[n] for n in (0, 2, 3)))
            assert done[1] == 0
            put(400, keys=200)
            wait_until(lambda: all(done[n] == 2 * expected[n] for n in (0, 2, 3)))
        finally:
            go_on.set()
        wait_until(lambda: done[1] == 2 * expected[1])


def test_memory_is_bounded_when_all_segments_are_slow(mp: Milepost, put: Put) -> None:
    go_on = Event()
    held: list[int] = []

    class Watched(dispatch.Dispatch):
        def deal(self, reading: dispatch.Reading, batch: object) -> None:
            super().deal(reading, batch)  # type: ignore[arg-type]
            held.append(sum(len(s.messages) for s in self._segments.values()))

    @mp.processor(NAME, segments=4, batch_size=5, delivery="at_least_once")
    def handle(messages: list[RecordedMessage]) -> None:
        go_on.wait(30)

    put(2000, keys=200)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "Dispatch", Watched)
        with running(handle):
            wait_until(lambda: len(held) >= 2)
            threading.Event().wait(0.5)
            assert max(held) <= 4 * 5 * 4
            go_on.set()
            handle.wait_for(put(1)[-1], timeout=60)


def test_split_merge_and_balance_while_running_keep_effects_once_and_in_order(
    mp: Milepost, conn: Connection, url: str, put: Put, effects: Effects
) -> None:
    rng = random.Random(3)
    processor = mp.processor(NAME, segments=4, batch_size=7, poll_seconds=0.1)(leave_all)
    with running(processor, processor):
        wait_until(lambda: shares(conn) == [2, 2])
        for _ in range(8):
            put(100, keys=30)
            n = len(masks(conn))
            is_split = n < 3 or (n <= 6 and rng.random() < 0.5)
            if is_split:
                operations.split(lambda: db.connect(url), "milepost", KEY)
            else:
                operations.merge(lambda: db.connect(url), "milepost", KEY)
            operations.balance(lambda: db.connect(url), "milepost", KEY)
        processor.wait_for(put(100, keys=30)[-1], timeout=30)
    log = list(mp.read())
    assert sorted(effects.positions()) == [m.position for m in log]
    keys = {m.position: m.key for m in log}
    for key in set(keys.values()):
        seen = [p for p in effects.positions() if keys[p] == key]
        assert seen == sorted(seen)


def test_a_claimed_segment_is_only_changed_under_the_lock(
    mp: Milepost, put: Put, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The feed, the keeper and the pool's threads look at it."""
    locks: list[Lock] = []
    unlocked: list[str] = []

    class Watched(ClaimedSegment):
        def __setattr__(self, name: str, value: object) -> None:
            if locks and not locks[0].locked():
                unlocked.append(name)
            super().__setattr__(name, value)

    init = dispatch.Dispatch.__init__

    def remember(self: dispatch.Dispatch, *arguments: Any) -> None:
        init(self, *arguments)
        locks.append(self.lock)

    monkeypatch.setattr(dispatch, "ClaimedSegment", Watched)
    monkeypatch.setattr(dispatch.Dispatch, "__init__", remember)
    positions = put(200, keys=50)
    mp.processor(NAME, segments=4, batch_size=5)(leave_all).run(until="caught_up")
    assert effects.count() == len(positions)
    assert unlocked == []
