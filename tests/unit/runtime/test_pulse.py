"""When a loop counts as late, and which loops belong to a run."""

from __future__ import annotations

from contextlib import closing
from threading import Event, Thread

from milepost.runtime.bell import Bell
from milepost.runtime.duty import Duty
from milepost.runtime.pulse import Pulses, of_this_run, turned
from tests.waiting import wait_until


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_loop_is_late_beyond_the_limit_after_its_rest() -> None:
    clock = Clock()
    pulses = Pulses(clock)
    with pulses.loop("claims") as pulse:
        pulse.turned(rest_seconds=20.0)
        clock.now = 80.0
        assert pulses.late(60.0) == {}
        clock.now = 81.0
        assert pulses.late(60.0) == {"claims": 61.0}
        turned(0.0)  # said by what waits for a lost server, deep inside
        assert pulses.late(60.0) == {}
    clock.now = 1_000.0
    assert pulses.late(60.0) == {}
    turned(0.0)  # in no loop: nothing happens


def test_a_duty_belongs_to_the_run_of_the_thread_that_starts_it() -> None:
    clock, pulses, hangs, seen = Clock(), Pulses(), Event(), Event()
    pulses.clock = clock

    def step() -> None:
        seen.set()
        hangs.wait()

    duty = Duty("watcher", step, lambda _error: None)
    with pulses.collecting():
        duty.start()
    assert seen.wait(60)
    clock.now = 61.0
    assert pulses.late(60.0) == {"watcher": 61.0}
    assert of_this_run().late(0.0) == {}
    hangs.set()
    duty.close()
    assert pulses.late(60.0) == {}


def test_closing_does_not_wait_for_a_duty_that_hangs() -> None:
    hangs = Event()
    duty = Duty("health", lambda: (hangs.wait(), None)[1], lambda _error: None)
    duty.start()
    duty.close(seconds=0.01)
    hangs.set()
    duty.close()


def test_a_thread_of_the_run_is_not_one_of_another() -> None:
    pulses, found = Pulses(), []
    with pulses.collecting():
        thread = Thread(target=lambda: found.append(of_this_run()))
        thread.start()
        thread.join()
        assert of_this_run() is pulses
    wait_until(lambda: found)
    assert found[0] is not pulses


def test_a_loop_that_waits_for_its_bell_is_not_late() -> None:
    clock = Clock()
    pulses, bell = Pulses(clock), Bell()
    with closing(bell), pulses.loop("settle"):
        bell.ring()
        bell.wait(60.0)
        clock.now = 61.0
        assert pulses.late(1.0) == {}
        assert pulses.late(0.5) == {"settle": 1.0}
