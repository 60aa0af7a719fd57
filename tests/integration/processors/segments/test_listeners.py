"""Segment listeners of ordinary handlers: told of every claim and of its end, for caches."""

from __future__ import annotations

from functools import partial
from threading import Event, Lock
from typing import Any

import pytest

from milepost import Milepost, RecordedMessage, Segment, SegmentListener, db
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.processors.segments import operations
from milepost.runtime import Timing
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, Instance, leave_all, running
from tests.integration.processors.self_checkpointing.models import Model
from tests.waiting import wait_until

NAME = "cached"


@pytest.fixture
def timing() -> Timing:
    """A segment that was given back is claimed again soon."""
    return Timing(beat_seconds=0.05)


def ignore(messages: list[RecordedMessage], tx: Connection) -> None:
    """Handles nothing."""


class Calls:
    """What was called, with which segment."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._all: list[tuple[str, Segment]] = []

    def note(self, name: str, segment: Segment) -> None:
        with self._lock:
            self._all.append((name, segment))

    def of(self, segment: Segment) -> list[str]:
        with self._lock:
            return [name for name, of in self._all if of == segment]

    @property
    def names(self) -> list[str]:
        with self._lock:
            return [name for name, _ in self._all]

    @property
    def segments(self) -> set[Segment]:
        with self._lock:
            return {segment for _, segment in self._all}


class Cached(SegmentListener):
    """A handler with a cache for each of its segments."""

    def __init__(self) -> None:
        self.calls = Calls()
        self.cache: dict[Segment, list[str | None]] = {}

    def on_segment_claimed(self, segment: Segment) -> None:
        self.calls.note("claimed", segment)
        self.cache[segment] = []

    def __call__(self, messages: list[RecordedMessage], tx: Connection, segment: Segment) -> None:
        self.calls.note("handled", segment)
        self.cache[segment].extend(message.key for message in messages)
        leave_all(messages, tx)

    async def on_segment_released(self, segment: Segment) -> None:
        self.calls.note("released", segment)
        del self.cache[segment]

    def on_segment_lost(self, segment: Segment) -> None:
        self.calls.note("lost", segment)
        self.cache.pop(segment, None)


def test_a_handler_object_is_told_of_each_claim_before_its_messages_and_of_its_release_after(
    mp: Milepost, put: Put, effects: Effects
) -> None:
    positions = put(100, keys=30)
    cached = Cached()
    mp.processor(NAME, segments=4, batch_size=5)(cached).run(until="caught_up")
    assert sorted(effects.positions()) == positions
    assert len(cached.calls.segments) == 4
    for segment in cached.calls.segments:
        first, *handled, last = cached.calls.of(segment)
        assert (first, last) == ("claimed", "released")
        assert set(handled) <= {"handled"}
    assert cached.cache == {}


def test_the_checkpoint_moves_with_every_batch_as_without_listeners(
    mp: Milepost, put: Put, conn: Connection
) -> None:
    processor = mp.processor(NAME, segments=1, poll_seconds=0.05)(ignore)
    processor.on_segment_claimed(print)
    with running(processor):
        positions = put(10)
        wait_until(lambda: processor.position() == positions[-1])
    assert conn.execute("select mode from milepost.processors").fetchall() == [(None,)]


def test_functions_of_a_processor_listen(mp: Milepost, put: Put) -> None:
    calls = Calls()
    processor = mp.processor(NAME, segments=2, delivery="at_least_once")

    @processor.on_segment_claimed
    def load(segment: Segment) -> None:
        calls.note("claimed", segment)

    @processor.on_segment_released
    async def forget(segment: Segment) -> None:
        calls.note("released", segment)

    @processor.on("Counted")
    def handle(messages: list[RecordedMessage], segment: Segment) -> None:
        calls.note("handled", segment)

    put(20)
    processor.run(until="caught_up")
    for segment in calls.segments:
        first, *_, last = calls.of(segment)
        assert (first, last) == ("claimed", "released")
    assert len(calls.segments) == 2


def test_a_claim_whose_listener_fails_is_given_back_and_tried_again(
    mp: Milepost, put: Put, effects: Effects
) -> None:
    positions = put(10)

    class Flaky(Cached):
        def on_segment_claimed(self, segment: Segment) -> None:
            Cached.on_segment_claimed(self, segment)
            if self.calls.names == ["claimed"]:
                raise ConnectionError("the cache is away")

    flaky = Flaky()
    mp.processor(NAME, segments=1)(flaky).run(until="caught_up")
    assert effects.positions() == positions
    assert flaky.calls.names == ["claimed", "lost", "claimed", "handled", "released"]


def test_a_lost_claim_is_told_and_not_released(mp: Milepost, put: Put, conn: Connection) -> None:
    gate, stalled = Event(), Event()
    cached = Calls()
    processor = mp.processor(NAME, segments=1, delivery="at_least_once", poll_seconds=0.05)

    @processor
    def stall(messages: list[RecordedMessage]) -> None:
        stalled.set()
        gate.wait(30)

    for event in ("claimed", "released", "lost"):
        getattr(processor, f"on_segment_{event}")(partial(cached.note, event))
    instance = Instance(processor)
    try:
        put(10)
        assert stalled.wait(30)
        conn.execute("update milepost.segments set owner = 'somebody', epoch = epoch + 1")
        conn.execute("update milepost.checkpoints set owner = 'somebody', epoch = epoch + 1")
        gate.set()
        wait_until(lambda: "lost" in cached.names)
        assert cached.names == ["claimed", "lost"]
    finally:
        gate.set()
        instance.stop.set()
        instance.ends()


def test_a_split_releases_the_whole_and_claims_the_halves(
    mp: Milepost, url: str, put: Put, effects: Effects
) -> None:
    cached = Cached()
    with running(mp.processor(NAME, segments=1, poll_seconds=0.05)(cached)):
        put(10)
        effects.wait_for(10)
        operations.split(partial(db.connect, url), "milepost", CheckpointKey(NAME))
        wait_until(lambda: cached.calls.names.count("claimed") == 3)
    assert cached.calls.of(Segment.WHOLE)[-1] == "released"
    assert cached.calls.names.count("released") == 3
    assert "lost" not in cached.calls.names


def test_a_listener_that_hangs_at_the_release_does_not_keep_the_run(mp: Milepost, put: Put) -> None:
    gate = Event()
    processor = mp.processor(NAME, segments=1, durability_timeout=0.2)(ignore)

    @processor.on_segment_released
    def hang(segment: Segment) -> None:
        gate.wait(60)

    put(3)
    try:
        processor.run(until="caught_up")
        assert processor.caught_up()
    finally:
        gate.set()


@pytest.mark.parametrize("has_ordinary", [False, True])
def test_beside_handlers_that_checkpoint_themselves(
    mp: Milepost, put: Put, effects: Effects, has_ordinary: bool
) -> None:
    positions = put(20)
    model, calls = Model(), Calls()
    delivery: Any = "exactly_once" if has_ordinary else "at_least_once"
    processor = mp.processor(NAME, segments=2, delivery=delivery)(model)
    if has_ordinary:
        processor.handler(leave_all)
    for event in ("claimed", "released", "lost"):
        getattr(processor, f"on_segment_{event}")(partial(calls.note, event))
    processor.run(until="caught_up")
    assert sorted(model.positions()) == positions
    assert effects.count() == (20 if has_ordinary else 0)
    assert len(calls.segments) == 2
    assert all(calls.of(segment) == ["claimed", "released"] for segment in calls.segments)


@pytest.mark.parametrize("timing", [Timing(beat_seconds=60.0)])
def test_a_listener_that_hangs_at_a_claim_keeps_neither_its_segment_nor_the_run(
    mp: Milepost, url: str, put: Put, conn: Connection, effects: Effects
) -> None:
    """A claim has a time limit, as every callback has; the next attempt is some beats later, so
    that the error is shown until then. Once the listener returns, it is told that the segment was
    lost, and may claim it again."""
    is_free, calls = Event(), Calls()

    class HangingAtFirst(Cached):
        def on_segment_claimed(self, segment: Segment) -> None:
            calls.note("claimed", segment)
            assert is_free.wait(60)
            super().on_segment_claimed(segment)

    positions = put(20)
    hanging = HangingAtFirst()
    processor = mp.processor(NAME, segments=1, durability_timeout=0.3)(hanging)
    with running(processor):
        wait_until(lambda: "HangingAtFirst did not answer within 0.3 s" in str(shown(conn)))
    assert conn.execute("select owner from milepost.segments").fetchall() == [(None,)]
    assert effects.positions() == []
    is_free.set()
    wait_until(lambda: hanging.calls.names == ["claimed", "lost"])
    # It does not hang any more, so that nothing but a busy machine would exceed the limit.
    Milepost(url).processor(NAME, segments=1)(hanging).run(until="caught_up")
    assert effects.positions() == positions
    assert hanging.calls.names[2:] == ["claimed", "handled", "released"]


def shown(conn: Connection) -> list[Any]:
    """What the processors' list shows."""
    return conn.execute("select last_error from milepost.processors").fetchall()
