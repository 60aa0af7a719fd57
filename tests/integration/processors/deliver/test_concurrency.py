"""Several handlers at once: keys in order, and a checkpoint that never passes a gap."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter, defaultdict
from functools import partial
from typing import Unpack

import pytest

from milepost import Message, Milepost, Position, RecordedMessage, Retry
from milepost.checkpoints import Committer
from milepost.db import Connection
from milepost.errors import HandlerFailed
from milepost.handlers import Handler
from milepost.processors import Processor
from milepost.processors.definition import Options
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import running
from tests.waiting import wait_until

AT_ONCE = 4
PATIENCE_SECONDS = 30


def concurrent(mp: Milepost, handler: Handler, **options: Unpack[Options]) -> Processor:
    """Stores its checkpoint at every message, unless it is told otherwise."""
    chosen: Options = {
        "handle": "message",
        "delivery": "at_least_once",
        "concurrency": AT_ONCE,
        "checkpoint_every": 1,
        **options,
    }
    return mp.processor("busy", **chosen)(handler)


def test_as_many_handlers_as_asked_for_run_at_once(mp: Milepost, put: Put) -> None:
    barrier = threading.Barrier(AT_ONCE, timeout=PATIENCE_SECONDS)
    processor = concurrent(mp, lambda _: barrier.wait())
    put(3 * AT_ONCE, keys=3 * AT_ONCE)
    processor.run(until="caught_up")
    assert processor.caught_up()


def test_async_handlers_run_at_once_on_one_event_loop(mp: Milepost, put: Put) -> None:
    loops: set[int] = set()
    waiting: list[asyncio.Event] = []

    async def keep(message: RecordedMessage) -> None:
        loops.add(id(asyncio.get_running_loop()))
        waiting.append(asyncio.Event())
        if len(waiting) == AT_ONCE:
            for event in waiting:
                event.set()
            waiting.clear()
        else:
            await asyncio.wait_for(waiting[-1].wait(), PATIENCE_SECONDS)

    processor = concurrent(mp, keep)
    put(3 * AT_ONCE, keys=3 * AT_ONCE)
    processor.run(until="caught_up")
    assert processor.caught_up()
    assert len(loops) == 1


def test_messages_of_one_key_run_in_order_and_never_at_once(mp: Milepost, put: Put) -> None:
    handled: dict[str | None, list[int]] = defaultdict(list)
    in_hand: Counter[str | None] = Counter()

    def keep(message: RecordedMessage) -> None:
        in_hand[message.key] += 1
        assert in_hand[message.key] == 1
        time.sleep(random.uniform(0, 0.003))
        handled[message.key].append(message.data["number"])
        in_hand[message.key] -= 1

    put(200, keys=6)
    concurrent(mp, keep, batch_size=17, checkpoint_every=10, retry=Retry(limit=0)).run("caught_up")
    assert handled == {f"key-{k}": [n for n in range(1, 201) if n % 6 == k] for k in range(6)}


class Stuck:
    """A handler that keeps the first message in hand until it is let go."""

    def __init__(self) -> None:
        self.is_released = threading.Event()
        self.handled: list[int] = []

    def __call__(self, message: RecordedMessage) -> None:
        if message.data["number"] == 1:
            assert self.is_released.wait(PATIENCE_SECONDS)
        self.handled.append(message.data["number"])


def test_the_checkpoint_does_not_pass_a_message_that_is_in_hand(mp: Milepost, put: Put) -> None:
    stuck = Stuck()
    processor = concurrent(mp, stuck)
    positions = put(20, keys=20)
    with running(processor):
        wait_until(lambda: len(stuck.handled) == 19)
        assert processor.position() == Position.BEGINNING
        stuck.is_released.set()
        wait_until(lambda: processor.position() == positions[-1])
    assert sorted(stuck.handled) == list(range(1, 21))


def test_a_stuck_message_holds_back_what_may_be_pending(
    mp: Milepost, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = watch_refusals(monkeypatch)
    stuck = Stuck()
    processor = concurrent(mp, stuck, max_pending=5)
    positions = put(30, keys=30)
    with running(processor):
        wait_until(lambda: len(stuck.handled) >= 4)
        assert refused.wait(PATIENCE_SECONDS)
        assert sorted(stuck.handled) == [2, 3, 4, 5]
        stuck.is_released.set()
        wait_until(lambda: processor.position() == positions[-1])
    assert sorted(stuck.handled) == list(range(1, 31))


def watch_refusals(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a message has waited for room in vain."""
    refused = threading.Event()
    admit = Committer.admit

    def watched(self: Committer, timeout: float | None = None) -> int | None:
        sequence = admit(self, timeout)
        if sequence is None:
            refused.set()
        return sequence

    monkeypatch.setattr(Committer, "admit", watched)
    return refused


class Failing:
    """A handler that fails on one message, with what it was told to."""

    def __init__(self, error: BaseException) -> None:
        self.error: BaseException | None = error
        self.handled: list[int] = []

    def __call__(self, message: RecordedMessage) -> None:
        if message.data["number"] == 7 and self.error is not None:
            raise self.error
        self.handled.append(message.data["number"])


def test_a_failing_message_stops_the_processor_with_the_checkpoint_before_it(
    mp: Milepost, put: Put
) -> None:
    failing = Failing(RuntimeError("no sevens"))
    processor = concurrent(mp, failing, retry=Retry(limit=2, first_seconds=0.001))
    positions = put(20, keys=3)
    with pytest.raises(HandlerFailed, match="no sevens") as caught:
        processor.run(until="caught_up")
    assert (caught.value.position, caught.value.attempts) == (str(positions[6]), 3)
    stood = processor.position()
    assert stood is not None
    assert stood < positions[6]
    failing.error = None
    processor.run(until="caught_up")
    assert set(failing.handled) == set(range(1, 21)), "a message was skipped"
    repeated = {n for n, times in Counter(failing.handled).items() if times > 1}
    assert all(positions[n - 1] > stood for n in repeated), "what was stored was repeated"
    assert processor.caught_up()


def test_a_failing_message_is_set_aside_and_the_rest_goes_on(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    failing = Failing(RuntimeError("no sevens"))
    processor = concurrent(mp, failing, retry=Retry(limit=0), on_failure="skip")
    positions = put(20, keys=3)
    processor.run(until="caught_up")
    assert sorted(failing.handled) == [n for n in range(1, 21) if n != 7]
    assert processor.position() == positions[-1]
    rows = conn.execute("select position, error from milepost.dead_letters").fetchall()
    assert rows == [(positions[6].position, "RuntimeError: no sevens")]


def test_a_handler_that_exits_ends_the_processor(mp: Milepost, put: Put) -> None:
    """A thread would end without a word, and its message stay in hand for ever."""
    processor = concurrent(mp, Failing(SystemExit("enough")))
    put(20, keys=3)
    with pytest.raises(SystemExit, match="enough"):
        processor.run(until="caught_up")


def test_a_stop_finishes_what_is_in_hand_and_a_restart_skips_nothing(
    mp: Milepost, put: Put
) -> None:
    handled: list[int] = []

    def keep(message: RecordedMessage) -> None:
        time.sleep(random.uniform(0, 0.005))
        handled.append(message.data["number"])

    processor = concurrent(mp, keep, batch_size=10, checkpoint_every=7)
    positions = put(200, keys=9)
    stops: list[tuple[set[int], int]] = []
    for goal in (40, 80, 120):
        with running(processor):
            wait_until(partial(exceeds, handled, goal))
        stood = processor.position() or Position.BEGINNING
        stored = {n for n in range(1, 201) if positions[n - 1] <= stood}
        assert stored <= set(handled), "the checkpoint passed what was not handled"
        stops.append((stored, len(handled)))
    processor.run(until="caught_up")
    for stored, before in stops:
        assert not stored & set(handled[before:]), "what was stored was handled again"
    assert set(handled) == set(range(1, 201))


def exceeds(handled: list[int], goal: int) -> bool:
    return len(handled) > goal


def test_messages_without_a_key_run_at_once(mp: Milepost, conn: Connection) -> None:
    barrier = threading.Barrier(AT_ONCE, timeout=PATIENCE_SECONDS)
    processor = concurrent(mp, lambda _: barrier.wait())
    mp.append(conn, *(Message("Counted", {}) for _ in range(AT_ONCE)))
    processor.run(until="caught_up")
    assert processor.caught_up()
