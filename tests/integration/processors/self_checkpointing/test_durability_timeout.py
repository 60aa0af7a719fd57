"""A participant that hangs fails the claim or the checkpoint, and nothing else."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from milepost import Milepost, Position, Retry, Segment, Trigger, db
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.processors import Processor
from milepost.processors.segments import operations
from milepost.processors.self_checkpointing import participants
from milepost.processors.self_checkpointing.reconcile import Report
from milepost.runtime import Timing
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave_all, running
from tests.integration.processors.segments.claiming import wait_until_extended
from tests.integration.processors.self_checkpointing.conftest import Stored
from tests.integration.processors.self_checkpointing.models import Model
from tests.waiting import wait_until

TIMEOUT_SECONDS = 0.3
# After a limit an instance ends that gives back all it claims: while the test only looks at it.
ENDLESS = Retry(limit=10_000)


class Gate(threading.Event):
    """Knows whether anybody hangs before it."""

    def __init__(self) -> None:
        super().__init__()
        self._lock, self._hanging = threading.Lock(), 0

    def wait(self, timeout: float | None = None) -> bool:
        with self.hanging():
            return super().wait(timeout)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        self._add(1)
        try:
            yield
        finally:
            self._add(-1)

    def is_waited_for(self) -> bool:
        return self._hanging > 0

    def _add(self, change: int) -> None:
        with self._lock:
            self._hanging += change


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Opened at the end, so that no thread is left hanging."""
    gate = Gate()
    yield gate
    gate.set()


@pytest.fixture(autouse=True)
def _only_what_hangs_is_late(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may hold up any call for longer than the limit of these tests. So a call is
    waited for until it hangs, if it has not ended by then; and then for as long as the limit."""
    ends_before = participants._Call.ends_before

    def patient(call: participants._Call, deadline: float) -> bool:
        wait_until(lambda: call.done.done() or gate.is_waited_for())
        return ends_before(call, deadline)

    monkeypatch.setattr(participants._Call, "ends_before", patient)


class Hanging(Model):
    """Hangs for one segment until the gate opens; the other segments are its normal business."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(report=self._report)
        self.gate, self.hangs_for = gate, 0

    def _report(self, segment: Segment, requested: Position) -> Report:
        if segment.id == self.hangs_for:
            self.gate.wait(60)
        return requested


class HangingAsync(Hanging):
    """The same with coroutines; its wait can be cancelled."""

    cancelled = 0

    async def on_checkpoint_advanced(  # type: ignore[override]  # async def is an equal
        self, segment: Segment, requested: Position
    ) -> Report:
        self.note("advanced", segment, requested)
        try:
            if segment.id == self.hangs_for:
                await hang(self.gate)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return requested

    async def on_segment_released(  # type: ignore[override]
        self, segment: Segment, up_to: Position
    ) -> Report:
        return await self.on_checkpoint_advanced(segment, up_to)


async def hang(gate: Gate) -> None:
    with gate.hanging():
        while not gate.is_set():
            await asyncio.sleep(0.01)


def processor(mp: Milepost, model: Model, **options: Any) -> Processor:
    given: dict[str, Any] = {
        "delivery": "at_least_once", "poll_seconds": 0.05, "retry": ENDLESS,
    } | options  # fmt: skip
    return mp.processor("balances", durability_timeout=TIMEOUT_SECONDS, **given)(model)


@pytest.mark.parametrize("kind", [Hanging, HangingAsync])
def test_a_checkpoint_that_takes_too_long_has_failed_and_the_segment_is_retried(
    mp: Milepost, put: Put, stored: Stored, conn: Connection, gate: Gate,
    kind: type[Hanging], caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.WARNING, "milepost.processors")
    positions = put(10)
    model = kind(gate)
    with running(processor(mp, model)):
        model.wait_for(10)
        old = model.trigger
        old.request()
        model.wait_for_call("advanced")
        wait_until(lambda: not old.is_active)
        wait_until(lambda: _error(conn) is not None)
        assert stored() == Position.BEGINNING
        gate.set()  # it comes to itself: claimed again, handled again, stored
        model.wait_for_call("claimed", 2)
        model.wait_for(20)
        wait_until(lambda: _has_stored(model, stored, positions[-1]))
    # In the log: the error of the segment may by then be that it was busy at the next claim.
    assert f"{kind.__name__} did not answer within 0.3 s" in caplog.text


def _has_stored(model: Model, stored: Stored, position: Position) -> bool:
    """Asked for at every look: on a slow machine any answer may come too late, and then the trigger
    is another one."""
    model.trigger.request()
    return stored() >= position


def test_a_coroutine_that_is_given_up_is_cancelled(
    mp: Milepost, put: Put, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(participants, "CANCEL_SECONDS", 30.0)  # it need not be quick
    model = HangingAsync(gate)
    with running(processor(mp, model)):
        put(10)
        model.wait_for(10)
        wait_until(lambda: _has_cancelled(model))
        model.wait_for_call("lost")  # it is not busy any more, so it hears of it
        gate.set()


def _has_cancelled(model: HangingAsync) -> bool:
    """Asked at every look: on a slow machine it may be given up before it was ever called."""
    model.trigger.request()
    return model.cancelled > 0


def test_while_it_hangs_the_claims_are_kept_and_other_segments_go_on(
    mp: Milepost, put: Put, stored: Stored, conn: Connection, gate: Gate
) -> None:
    """It may hang for longer than a claim holds; the one thread of the pool that waits for it is
    not the one that extends claims."""
    model = Hanging(gate)
    made = mp.processor(
        "balances", delivery="at_least_once", poll_seconds=0.05, segments=2,
        durability_timeout=60.0,
    )(model)  # fmt: skip
    with running(made):
        positions = put(20, keys=20)
        model.wait_for(20)
        held = _epochs(conn)
        for trigger in list(model.triggers.values()):
            trigger.request()
        wait_until(lambda: stored(1) >= positions[-1])
        model.wait_for_call("advanced", 2)
        wait_until_extended(conn)
        assert _epochs(conn) == held
        handled = model.handled[Segment(1, 1)]
        count = len(handled)
        more = put(20, keys=20)
        wait_until(lambda: len(handled) == 2 * count)
        model.triggers[Segment(1, 1)].request()
        wait_until(lambda: stored(1) >= more[-1])
        assert stored(0) == Position.BEGINNING
        gate.set()
        wait_until(lambda: stored(0) >= positions[-1])
    assert _count(model, "lost") == 0


def test_it_is_not_called_again_for_a_segment_in_which_it_still_hangs(
    mp: Milepost, put: Put, conn: Connection, gate: Gate
) -> None:
    """Or every retry would leave one more thread behind."""
    model = Hanging(gate)
    with running(processor(mp, model)):
        put(10)
        model.wait_for(10)
        model.trigger.request()
        model.wait_for_call("advanced")
        wait_until(lambda: "still busy" in str(_error(conn)))
        assert _count(model, "advanced") == 1
        assert _count(model, "claimed") == 1
        gate.set()
        model.wait_for_call("claimed", 2)


def test_at_a_release_it_is_waited_for_no_longer_than_that(
    mp: Milepost, put: Put, stored: Stored, conn: Connection, gate: Gate
) -> None:
    model = Hanging(gate)
    with running(processor(mp, model)):
        put(10)
        model.wait_for(10)
    assert stored() == Position.BEGINNING
    assert conn.execute("select owner from milepost.segments").fetchone() == (None,)


def test_in_auto_mode_a_batch_that_is_not_durable_in_time_leaves_no_trace(
    mp: Milepost, put: Put, stored: Stored, effects: Effects, conn: Connection,
    gate: Gate,
) -> None:  # fmt: skip
    positions = put(4)
    model = Hanging(gate)
    made = processor(mp, model, delivery="exactly_once")
    made.handler(leave_all)
    with running(made):
        wait_until(lambda: _error(conn) is not None)
        assert effects.count() == 0
        assert stored() == Position.BEGINNING
        gate.set()
        wait_until(lambda: stored() >= positions[-1])
    assert effects.positions() == positions


class HangingAtFirst(Model):
    """Hangs at its first claim until the gate opens."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate = gate

    def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
        super().on_segment_claimed(segment, trigger)
        self.gate.wait(60)


class HangingAtFirstAsync(HangingAtFirst):
    async def on_segment_claimed(  # type: ignore[override]
        self, segment: Segment, trigger: Trigger
    ) -> None:
        Model.on_segment_claimed(self, segment, trigger)
        await hang(self.gate)


at_first = pytest.mark.parametrize("kind", [HangingAtFirst, HangingAtFirstAsync])


@at_first
def test_a_claim_that_takes_too_long_has_failed_and_is_tried_again(
    mp: Milepost, put: Put, conn: Connection, gate: Gate, kind: type[HangingAtFirst],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.WARNING, "milepost.processors")
    positions = put(10)
    model = kind(gate)
    with running(processor(mp, model)):
        error = f"claiming it failed: {kind.__name__} did not answer within 0.3 s"
        wait_until(lambda: error in caplog.text)
        wait_until(lambda: "claiming it failed" in str(_shown(conn)))
        assert model.positions() == []
        gate.set()
        model.wait_for(10)
    assert model.positions() == positions


def _shown(conn: Connection) -> str | None:
    row = conn.execute("select last_error from milepost.processors").fetchone()
    return None if row is None else row[0]


@at_first
def test_a_claim_that_hangs_does_not_keep_the_run_from_ending(
    mp: Milepost, conn: Connection, gate: Gate, kind: type[HangingAtFirst]
) -> None:
    model = kind(gate)
    with running(processor(mp, model)):
        model.wait_for_call("claimed")
    assert conn.execute("select owner from milepost.segments").fetchone() == (None,)


def test_a_claim_that_hangs_does_not_keep_a_segment_from_being_split(
    mp: Milepost, url: str, conn: Connection, gate: Gate
) -> None:
    model = HangingAtFirst(gate)
    with running(processor(mp, model)):
        model.wait_for_call("claimed")
        operations.split(partial(db.connect, url), "milepost", CheckpointKey("balances"), None, 30)
        rows = conn.execute("select id, mask from milepost.segments order by id").fetchall()
        assert rows == [(0, 1), (1, 1)]


@pytest.mark.parametrize("callback", ["claimed", "advanced"])
def test_one_that_answers_late_is_told_that_the_segment_was_lost(
    mp: Milepost, put: Put, gate: Gate, callback: str
) -> None:
    """Once, and before it is told of the next claim."""
    put(10)
    model = HangingAtFirst(gate) if callback == "claimed" else Hanging(gate)
    with running(processor(mp, model)):
        model.wait_for_call("claimed")
        if callback == "advanced":
            model.wait_for(10)
            model.trigger.request()
            model.wait_for_call("advanced")
        old = model.trigger
        wait_until(lambda: not old.is_active)
        assert "lost" not in model.names
        gate.set()
        model.wait_for_call("claimed", 2)
        told = model.names[: model.names.index("claimed", 1)]
        assert told == ["claimed", "advanced", "lost"][:: 2 if callback == "claimed" else 1]
    assert _count(model, "lost") == 1


def test_until_it_was_told_it_is_not_told_of_the_next_claim(
    mp: Milepost, put: Put, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "milepost.processors")
    is_told = threading.Event()

    class Slow(HangingAtFirst):
        def on_segment_lost(self, segment: Segment) -> None:
            super().on_segment_lost(segment)
            is_told.wait(60)

    model = Slow(gate)
    with running(processor(mp, model)):
        wait_until(lambda: "still busy" in caplog.text)
        gate.set()
        model.wait_for_call("lost")
        before = caplog.text.count("still busy")
        # One claim may have been refused already, before it was told.
        wait_until(lambda: caplog.text.count("still busy") >= before + 4)
        assert model.names == ["claimed", "lost"]
        is_told.set()
        model.wait_for_call("claimed", 2)


def test_one_that_answers_late_at_a_release_is_told_so_after_the_run(
    mp: Milepost, put: Put, gate: Gate
) -> None:
    put(10)
    model = Hanging(gate)
    with running(processor(mp, model)):
        model.wait_for(10)
    assert model.names == ["claimed", "released"]
    gate.set()
    model.wait_for_call("lost")
    assert model.names == ["claimed", "released", "lost"]


def test_after_the_run_there_is_no_loop_to_tell_a_coroutine_function_on(
    mp: Milepost, put: Put, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    class Mixed(Hanging):
        async def on_segment_lost(self, segment: Segment) -> None:  # type: ignore[override]
            self.note("lost", segment)

    put(10)
    model = Mixed(gate)
    with running(processor(mp, model)):
        model.wait_for(10)
    gate.set()
    wait_until(lambda: "Mixed.on_segment_lost failed" in caplog.text)
    assert "Event loop is closed" in caplog.text


@pytest.mark.parametrize("timing", [Timing(beat_seconds=60.0)])
def test_what_fails_in_being_told_is_logged_and_shown(
    mp: Milepost, conn: Connection, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    """Until the next attempt, which comes some beats later, and fails in another way."""

    class Stubborn(Model):
        def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
            super().on_segment_claimed(segment, trigger)
            raise ConnectionError("nothing to load from")

        def on_segment_lost(self, segment: Segment) -> None:
            gate.wait(60)

    with running(processor(mp, Stubborn())):
        wait_until(lambda: "on_segment_lost: Stubborn did not answer" in str(_shown(conn)))
    assert "on_segment_lost: Stubborn did not answer within 0.3 s" in caplog.text


def _count(model: Model, name: str) -> int:
    return model.names.count(name)


def _error(conn: Connection) -> str | None:
    row = conn.execute("select last_error from milepost.segments where id = 0").fetchone()
    return None if row is None else row[0]


def _epochs(conn: Connection) -> list[Any]:
    return conn.execute("select id, epoch, owner from milepost.segments order by id").fetchall()
