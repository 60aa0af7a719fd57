"""What a standby costs the instance that works: a look now and then, not a session."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from milepost import Milepost, RecordedMessage, db
from milepost.db import Connection
from milepost.processors import Processor, session
from milepost.processors.standby import Standby
from milepost.processors.status import ProcessorStatus
from milepost.runtime import Lease, Runtime
from milepost.sql import DEFAULT_SCHEMA
from tests.integration.processors import sessions
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave_all, running
from tests.waiting import wait_until

BATCHES = 8


class Traces:
    """What each instance asks of the server: sessions it opens, and looks while it stands by. A
    look waits until the checkpoint has moved since the one before, while the other one works."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: Counter[str] = Counter()
        self.looks = 0
        self.is_over = threading.Event()
        seen: list[object] = []
        opening, looking = session.PlainSession._open, Standby.look

        def opened(of: session.PlainSession) -> None:
            self.opened[of.status.owner] += 1
            opening(of)

        def looked(of: Standby, lease: Lease) -> object:
            self.looks += 1
            wait_until(lambda: self.is_over.is_set() or looking(of, lease) not in seen)
            seen.append(looking(of, lease))
            return seen[-1]

        monkeypatch.setattr(session.PlainSession, "_open", opened)
        monkeypatch.setattr(Standby, "look", looked)

    def total(self) -> int:
        return self.looks + self.opened.total()


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Traces:
    return Traces(monkeypatch)


def instance(url: str, handler: object) -> Processor:
    options = Milepost(url).processor("shared", batch_size=5, poll_seconds=0.05)
    return options(handler)


def test_a_standby_opens_no_session_while_the_checkpoint_moves(
    url: str, conn: Connection, effects: Effects, put: Put, traces: Traces
) -> None:
    """The first batch is held until the second instance has met its lock, and each further one
    until that has done something more."""
    is_released, has_begun = threading.Event(), threading.Event()
    done = 0

    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        nonlocal done
        leave_all(messages, tx)
        has_begun.set()
        assert is_released.wait(60)
        if done:
            wait_until(lambda: traces.total() > done)
        done = traces.total()

    positions = put(5)
    with running(instance(url, keep)):
        assert has_begun.wait(60)
        with running(instance(url, leave_all)) as (standby,):
            sessions.wait_until_one_waits_for_a_lock(conn, "shared")
            positions += put(5 * BATCHES)
            is_released.set()
            effects.wait_for(len(positions))
            assert traces.opened[standby.owner] == 1
            assert traces.looks >= BATCHES
            traces.is_over.set()
    assert effects.positions() == positions


def test_a_standby_takes_over_when_the_checkpoint_stands_still(
    url: str, conn: Connection, effects: Effects, put: Put, traces: Traces
) -> None:
    """The one that works is gone in the middle of a batch, while the other one looks."""
    is_released, has_begun = threading.Event(), threading.Event()

    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        has_begun.set()
        assert is_released.wait(60)

    traces.is_over.set()
    positions = put(5)
    with running(instance(url, keep)) as (first,):
        assert has_begun.wait(60)
        with running(instance(url, leave_all)):
            sessions.wait_until_one_waits_for_a_lock(conn, "shared")
            first.stop.set()
            is_released.set()
            assert first.ends() is None
            positions += put(5)
            effects.wait_for(len(positions))
    assert effects.positions() == positions


def test_a_server_that_is_lost_is_for_the_next_session_to_find(url: str) -> None:
    processor = instance(url, leave_all)
    options = processor.definition.options
    nowhere = Runtime(db.conninfo("host=/nowhere dbname=none"), DEFAULT_SCHEMA)
    status = ProcessorStatus(owner="nobody", schema=DEFAULT_SCHEMA, options=options)
    Standby(options, nowhere, status, threading.Event()).wait("stopped")
