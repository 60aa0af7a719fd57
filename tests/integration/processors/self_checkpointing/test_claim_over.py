"""Once a claim is lost, or its time is over, nothing that may write is called for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from milepost import Milepost, RecordedMessage, Segment, Trigger
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.processors.segments.claims import Claims
from milepost.processors.segments.keeper import Keeper
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Instance, leave_all, running
from tests.integration.processors.segments.claiming import expire, expire_all
from tests.integration.processors.self_checkpointing.models import Eager, Model
from tests.waiting import wait_until

THIEF = Claims(CheckpointKey("balances"), "thief", 60.0, "milepost")


class Gated(Eager):
    """Stays in its handler until the gate opens, once."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.gate = threading.Event(), threading.Event()

    def __call__(  # type: ignore[override]
        self, messages: list[RecordedMessage], segment: Segment, trigger: Trigger
    ) -> None:
        super().__call__(messages, segment, trigger)
        self.entered.set()
        assert self.gate.wait(60)


@dataclass(slots=True)
class Beats:
    """The heartbeats of the instance: counted, and left out while it is frozen."""

    is_frozen: bool = False
    count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    keeper: Keeper = field(init=False)

    def wait_for_more(self) -> None:
        before = self.count
        wait_until(lambda: self.count >= before + 2)  # one that began after now, and has ended


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> Beats:
    beats, beat = Beats(), Keeper.beat

    def counted(self: Keeper, conn: Connection) -> float:
        with beats.lock:
            if beats.is_frozen:
                return 0.05
            beats.keeper = self
            seconds = beat(self, conn)
            beats.count += 1
            return seconds

    monkeypatch.setattr(Keeper, "beat", counted)
    return beats


@pytest.fixture
def model() -> Iterator[Gated]:
    model = Gated()
    yield model
    model.gate.set()


def processor(mp: Milepost, model: Model, **options: Any) -> Any:
    given: dict[str, Any] = {"delivery": "at_least_once"} | options
    return mp.processor("balances", poll_seconds=0.05, **given)(model)


def freeze(beats: Beats, conn: Connection) -> None:
    """As if no heartbeat was sent for as long as the claim lasts: its time is over by the server's
    clock and by the instance's own."""
    with beats.lock:
        beats.is_frozen = True
    expire_all(conn)
    dispatch = beats.keeper.dispatch
    here, _ = dispatch.epochs()
    dispatch.extend(here, time.monotonic() - 1.0)


def test_after_a_freeze_nobody_is_asked_to_write(
    mp: Milepost, put: Put, conn: Connection, beats: Beats, model: Gated
) -> None:
    put(5)
    with running(processor(mp, model)):
        assert model.entered.wait(30)
        freeze(beats, conn)
        was_active = model.trigger.is_active
        model.gate.set()
        model.wait_for_call("lost")
        assert model.names == ["claimed", "lost"]
        assert not was_active
        beats.is_frozen = False
        model.wait_for_call("advanced")  # under the next claim


def test_a_trigger_stays_inert_though_the_server_extends_the_claim_after_all(
    mp: Milepost, put: Put, conn: Connection, beats: Beats, model: Gated
) -> None:
    """Nobody else has taken it; but somebody may have been told that it is over."""
    put(5)
    with running(processor(mp, model)):
        assert model.entered.wait(30)
        trigger = model.trigger
        freeze(beats, conn)
        assert not trigger.is_active
        beats.is_frozen = False
        beats.wait_for_more()
        assert not trigger.is_active
        trigger.request()
        model.gate.set()
        model.wait_for_call("lost")
        assert model.names[:2] == ["claimed", "lost"]


def test_after_another_instance_has_claimed_it_nobody_is_asked_to_write(
    mp: Milepost, put: Put, conn: Connection, beats: Beats, model: Gated
) -> None:
    put(5)
    with running(processor(mp, model, claim_seconds=60.0)) as (instance,):
        assert model.entered.wait(30)
        steal(conn, instance)
        beats.wait_for_more()
        was_active = model.trigger.is_active
        model.gate.set()
        model.wait_for_call("lost")
        assert model.names == ["claimed", "lost"]
        assert not was_active
        THIEF.leave(conn)


def steal(conn: Connection, instance: Instance) -> None:
    with conn.transaction():  # or a heartbeat in between would extend the claim
        expire(conn, instance.owner)
        assert THIEF.claim(conn, 1)


def test_the_next_handler_is_not_called(
    mp: Milepost, put: Put, conn: Connection, beats: Beats, model: Gated
) -> None:
    second = Model()
    made = processor(mp, model)
    made.handler(second)
    put(5)
    with running(made):
        assert model.entered.wait(30)
        freeze(beats, conn)
        model.gate.set()
        model.wait_for_call("lost")
        assert second.positions() == []
        beats.is_frozen = False


def test_in_auto_mode_too(
    mp: Milepost, put: Put, conn: Connection, beats: Beats, model: Gated
) -> None:
    made = processor(mp, model, delivery="exactly_once")
    made.handler(leave_all)
    conn.execute("create table effects (transaction_id bigint, position bigint)")
    put(5)
    with running(made):
        assert model.entered.wait(30)
        freeze(beats, conn)
        model.gate.set()
        model.wait_for_call("lost")
        assert model.names == ["claimed", "lost"]
        assert conn.execute("select from effects").fetchall() == []
        beats.is_frozen = False
        model.wait_for_call("advanced")
