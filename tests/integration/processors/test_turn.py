"""At least once with several instances: one works, the others stand by and take over."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from milepost import Milepost, Position, RecordedMessage, db
from milepost.db import Connection
from milepost.processors import Processor
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, running
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
KINDS = ["batch", "message", "concurrent"]
kinds = pytest.mark.parametrize("kind", KINDS)


@dataclass(slots=True)
class Calls:
    """Which instance was given which message, and how often."""

    url: str
    kind: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    seen: list[tuple[int, Position]] = field(default_factory=list)

    def instance(self, number: int, gate: threading.Event | None = None) -> Processor:
        """One more instance of the processor, as another process would make it."""

        def one(message: RecordedMessage) -> None:
            with self.lock:
                self.seen.append((number, message.position))
            assert gate is None or gate.wait(60)

        def many(messages: list[RecordedMessage]) -> None:
            for message in messages:
                one(message)

        is_batch = self.kind == "batch"
        return Milepost(self.url).processor(
            "mail", delivery="at_least_once", handle="batch" if is_batch else "message",
            concurrency=4 if self.kind == "concurrent" else None,
            batch_size=10, poll_seconds=0.05,
            checkpoint_every=7, checkpoint_seconds=0.2,
        )(many if is_batch else one)  # fmt: skip

    def positions(self) -> list[Position]:
        with self.lock:
            return sorted(position for _, position in self.seen)

    def instances(self) -> set[int]:
        with self.lock:
            return {number for number, _ in self.seen}


@kinds
def test_every_message_is_handled_once_by_one_of_three_instances(
    url: str, put: Put, kind: str
) -> None:
    calls = Calls(url, kind)
    positions = put(300)
    with running(*(calls.instance(number) for number in range(3))):
        for _ in range(10):
            positions += put(30)
        wait_until(lambda: len(calls.positions()) >= len(positions))
    assert calls.positions() == positions
    assert len(calls.instances()) == 1


@kinds
def test_a_standby_takes_over_when_the_one_that_works_stops(url: str, put: Put, kind: str) -> None:
    calls = Calls(url, kind)
    positions = put(20)
    with running(calls.instance(0)) as (first,):
        wait_until(lambda: calls.positions() == positions)
        with running(calls.instance(1)):
            positions += put(20)
            wait_until(lambda: calls.positions() == positions)
            assert calls.instances() == {0}
            first.stop.set()
            assert first.ends() is None
            positions += put(20)
            wait_until(lambda: len(calls.positions()) >= len(positions))
    assert calls.positions() == positions
    assert calls.instances() == {0, 1}


def test_a_slow_handler_keeps_its_turn(
    url: str, put: Put, caplog: pytest.LogCaptureFixture
) -> None:
    """However long it takes: the lock need not be renewed."""
    caplog.set_level(logging.INFO, "milepost.processors")
    calls, gate = Calls(url, "batch"), threading.Event()
    positions = put(5)
    with running(calls.instance(0, gate)):
        wait_until(lambda: calls.positions() == positions[:1])
        with running(calls.instance(1)) as (second,):
            wait_until(lambda: f"state=standby owner={second.owner}" in caplog.text)
            gate.set()
            wait_until(lambda: len(calls.positions()) >= len(positions))
    assert calls.instances() == {0}
    assert calls.positions() == positions


@kinds
def test_an_instance_that_runs_until_it_has_caught_up_waits_for_the_one_that_works(
    url: str, put: Put, kind: str
) -> None:
    calls, gate = Calls(url, kind), threading.Event()
    positions = put(30)
    with running(calls.instance(0, gate)):
        wait_until(lambda: calls.positions())
        second = threading.Thread(target=calls.instance(1).run, args=["caught_up"])
        second.start()
        gate.set()
        second.join(60)
        assert not second.is_alive()
        assert calls.positions() == positions
    assert calls.instances() == {0}


def test_another_version_and_another_name_have_turns_of_their_own(url: str, put: Put) -> None:
    seen: Counter[str] = Counter()
    put(1)
    processors = [
        Milepost(url).processor(name, version=version, delivery="at_least_once", handle="message")(
            lambda _, name=name, version=version: seen.update([f"{name} {version}"])
        )
        for name, version in [("a", 1), ("a", 2), ("b", 1)]
    ]
    with running(*processors):
        wait_until(lambda: len(seen) == 3)


def test_the_turn_holds_no_horizon_back(url: str, mp: Milepost, put: Put) -> None:
    calls = Calls(url, "message")
    with running(calls.instance(0)):
        positions = put(3)
        wait_until(lambda: calls.positions() == positions)
        assert mp.horizon() >= positions[-1]


MAIN = """
import sys, threading
from milepost import Milepost
mp = Milepost(sys.argv[1])

@mp.processor("mail", delivery="at_least_once", handle="message", poll_seconds=0.05)
def mail(message):
    with mp.connect() as conn:
        conn.execute(
            "insert into effects (transaction_id, position) values (%s, %s)",
            [message.position.transaction_id, message.position.position],
        )
    if message.data["number"] == 3 and len(sys.argv) > 2:
        threading.Event().wait()

mp.run()
"""


@contextmanager
def process(url: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", MAIN, url, *arguments]
    with subprocess.Popen(command, cwd=ROOT) as started:
        try:
            yield started
        finally:
            started.kill()


def test_a_standby_takes_over_when_the_one_that_works_is_killed_in_a_handler(
    url: str, effects: Effects, put: Put
) -> None:
    positions = put(6)
    with process(url, "hangs at the third") as first:
        effects.wait_for(3)
        with process(url):
            first.send_signal(signal.SIGKILL)
            effects.wait_for(9)  # the batch in hand, again
    assert effects.positions() == positions[:3] + positions


def test_a_session_that_is_ended_gives_the_turn_away(url: str, conn: Connection, put: Put) -> None:
    """As by an operator, or a server that found the peer dead: the checkpoint is the fence."""
    calls = Calls(url, "message")
    positions = put(5)
    with running(calls.instance(0), calls.instance(1)) as instances:
        # Of both: a first connection that is ended is an error.
        wait_until(lambda: all(instance.has_connected() for instance in instances))
        wait_until(lambda: calls.positions() == positions)
        conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and application_name = 'milepost mail'"
        )
        positions += put(5)
        wait_until(lambda: set(calls.positions()) == set(positions))


def holders(conn: Connection) -> int:
    row = conn.execute(
        "select count(*) from pg_locks where locktype = 'advisory' and objsubid = 2 and granted "
        "and database = (select oid from pg_database where datname = current_database())"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_exactly_once_takes_no_turn(url: str, conn: Connection, put: Put) -> None:
    """The row of its checkpoint decides, and a handler may keep it for as long as it likes."""
    put(1)
    processor = Milepost(url).processor("strict", poll_seconds=0.05)(lambda *_: None)
    with running(processor):
        wait_until(lambda: processor.position() != Position.BEGINNING)
        assert holders(conn) == 0
    with db.connect(url) as other:
        assert holders(other) == 0
