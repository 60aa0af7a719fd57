"""An instance whose callbacks fail or hang leaves its segments to the others."""

from __future__ import annotations

import threading
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from milepost import Milepost, Position, Retry, Segment, Trigger
from milepost.db import Connection
from milepost.errors import SegmentsGivenBack
from milepost.processors import Processor
from milepost.runtime import Timing
from tests.integration.cli.command import Cli
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Instance, running
from tests.integration.processors.segments.claiming import owners
from tests.integration.processors.self_checkpointing.conftest import Stored
from tests.integration.processors.self_checkpointing.models import Eager, Model
from tests.waiting import wait_until

SEGMENTS, MESSAGES = 4, 20
TIMEOUT_SECONDS = 0.3
PATIENT_SECONDS = 60.0  # of who never hangs: only a busy machine would exceed the time limit
ENDLESS = Retry(limit=10_000)
QUICK = Timing(beat_seconds=0.02)  # with which the limit comes soon


class Sick(Eager):
    """Fails, or hangs until the gate opens, in one of its callbacks."""

    def __init__(self, callback: str, gate: threading.Event | None = None) -> None:
        super().__init__(report=self._report)
        self.callback, self.gate, self.is_sick = callback, gate, True

    def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
        super().on_segment_claimed(segment, trigger)
        self._suffer("claimed")

    def _report(self, segment: Segment, requested: Position) -> Position:
        self._suffer("advanced")
        return requested

    def _suffer(self, callback: str) -> None:
        if callback != self.callback or not self.is_sick:
            return
        if self.gate is None:
            raise ConnectionError("the store is away")
        self.gate.wait(60)


def processor(url: str, timing: Timing, model: Model, **options: Any) -> Processor:
    given: dict[str, Any] = {"segments": SEGMENTS, "durability_timeout": TIMEOUT_SECONDS} | options
    mp = Milepost(url, timing=timing)
    return mp.processor("balances", delivery="at_least_once", poll_seconds=0.05, **given)(model)


def shares(conn: Connection) -> Counter[str | None]:
    return Counter(owners(conn).values())


in_a_callback = pytest.mark.parametrize("callback", ["claimed", "advanced"])
failing_or_hanging = pytest.mark.parametrize("is_hanging", [False, True])


@in_a_callback
@failing_or_hanging
def test_what_a_sick_instance_gives_back_is_handled_by_a_healthy_one(
    url: str, timing: Timing, put: Put, stored: Stored, gate: threading.Event, callback: str,
    is_hanging: bool,
) -> None:  # fmt: skip
    """While the sick one goes on trying: if it ended, its share would be free in any case."""
    sick, healthy = Sick(callback, gate if is_hanging else None), Eager()
    positions = put(MESSAGES, keys=MESSAGES)
    with running(processor(url, timing, sick, retry=ENDLESS)) as (bad,):
        sick.wait_for_call("claimed", SEGMENTS)
        with running(processor(url, timing, healthy)):
            wait_until(lambda: sorted(set(healthy.positions())) == positions)
            wait_until(lambda: all(stored(n) >= _last(n, healthy) for n in range(SEGMENTS)))
            assert not bad.has_ended()


def _last(segment: int, model: Model) -> Position:
    (handled,) = (found for of, found in model.handled.items() if of.id == segment)
    return max(handled)


@in_a_callback
@failing_or_hanging
def test_after_a_limit_it_takes_part_no_more(
    url: str, conn: Connection, put: Put, gate: threading.Event, callback: str,
    is_hanging: bool,
) -> None:  # fmt: skip
    sick, healthy = Sick(callback, gate if is_hanging else None), Eager()
    positions = put(MESSAGES, keys=MESSAGES)
    bad = Instance(processor(url, QUICK, sick))
    sick.wait_for_call("claimed", SEGMENTS)
    with running(processor(url, QUICK, healthy)) as (good,):

        def has_ended() -> bool:
            positions.extend(put(MESSAGES, keys=MESSAGES))  # what it is asked to make durable
            return bad.has_ended()

        wait_until(has_ended, look_seconds=0.1)
        assert isinstance(bad.ends(), SegmentsGivenBack)
        wait_until(lambda: sorted(set(healthy.positions())) == positions)
        wait_until(lambda: shares(conn) == {good.owner: SEGMENTS})
        assert not any(trigger.is_active for trigger in sick.all_triggers)


def test_each_time_it_waits_longer_before_it_tries_again(url: str, conn: Connection) -> None:
    """Also where nobody else is there to take the segment."""
    beat_seconds, claimed_at = 0.02, []

    class Timed(Sick):
        def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
            claimed_at.append(time.monotonic())
            super().on_segment_claimed(segment, trigger)

    timing = Timing(beat_seconds=beat_seconds)
    options = {"segments": 1, "retry": ENDLESS, "durability_timeout": PATIENT_SECONDS}
    with running(processor(url, timing, Timed("claimed"), **options)):
        wait_until(lambda: len(claimed_at) >= 6)
    pauses = [later - earlier for earlier, later in pairwise(claimed_at)]
    assert all(pause >= 3 * beat_seconds * 2**n for n, pause in enumerate(pauses))


def test_one_that_recovers_gets_its_share_again(
    url: str, timing: Timing, conn: Connection, put: Put
) -> None:
    sick, healthy = Sick("claimed"), Eager()
    with running(processor(url, timing, healthy)) as (good,):
        wait_until(lambda: shares(conn) == {good.owner: SEGMENTS})
        with running(processor(url, timing, sick, retry=ENDLESS)) as (bad,):
            sick.wait_for_call("claimed")
            wait_until(lambda: shares(conn) == {good.owner: SEGMENTS})
            sick.is_sick = False

            def is_shared() -> bool:
                put(MESSAGES, keys=MESSAGES)  # progress is what shows that it is well
                return shares(conn) == {good.owner: 2, bad.owner: 2}

            wait_until(is_shared, look_seconds=0.05)


def test_one_bad_segment_does_not_end_an_instance_that_works_on_others(
    url: str, conn: Connection, put: Put
) -> None:
    class Picky(Eager):
        def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
            super().on_segment_claimed(segment, trigger)
            if segment.id == 1:
                raise ConnectionError("no snapshot of this one")

    model = Picky()
    timing = Timing(beat_seconds=0.01)
    with running(processor(url, timing, model, durability_timeout=PATIENT_SECONDS)) as (instance,):
        wait_until(lambda: _claims(model, 1) >= 7)  # more often than `retry` allows
        assert shares(conn)[instance.owner] >= 3
        put(MESSAGES, keys=MESSAGES)
        wait_until(lambda: {of.id for of in model.handled} == {0, 2, 3})


def _claims(model: Model, segment: int) -> int:
    return sum(c.segment.id == segment for c in list(model.calls) if c.name == "claimed")


def test_the_error_is_shown(url: str, conn: Connection, put: Put, gate: threading.Event) -> None:
    """Also of an instance that has never handled anything, beside one that works."""
    sick, healthy = Sick("claimed", gate), Eager()
    note_errors(conn)
    well = processor(url, QUICK, healthy, durability_timeout=PATIENT_SECONDS)
    with running(well) as (good,):
        wait_until(lambda: shares(conn) == {good.owner: SEGMENTS})
        bad = Instance(processor(url, QUICK, sick))
        wait_until(lambda: "did not answer within 0.3 s" in _errors(conn))
        error = bad.ends()
        assert isinstance(error, SegmentsGivenBack)
        assert error.times == 6
        assert "still busy with an earlier call" in Cli(url).run("processors").stdout
        shown = Cli(url).run("processors", "list", "--json").document()[0]
        assert shown["last_error"] == f"SegmentsGivenBack: {error}"
        assert shown["state"] == "running"  # the other one is


def note_errors(conn: Connection) -> None:
    """From now on, each that is shown: another one may follow before a slow machine has looked."""
    conn.execute("create table noted (error text)")
    conn.execute(
        "create function note() returns trigger language plpgsql as "
        "$$ begin insert into public.noted values (new.last_error); return new; end $$"
    )
    conn.execute(
        "create trigger note after update on milepost.processors "
        "for each row execute function note()"
    )


def _errors(conn: Connection) -> str:
    return str(conn.execute("select distinct error from noted").fetchall())
