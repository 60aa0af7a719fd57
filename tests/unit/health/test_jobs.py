from __future__ import annotations

from dataclasses import replace

import pytest

from milepost.health.check import Limits
from milepost.health.jobs import Queue, ScheduleStatus, queue_check, schedules_check
from milepost.queue.admin import ChannelStatus, QueueStatus
from milepost.queue.invariants import Fault
from milepost.queue.schedules import CHANNEL

STATUS = QueueStatus(2, 1, 1, 0, 0, 1, 3.0, 0.0)
EMAILS = ChannelStatus("emails", 2, 1, 1, 0, 3.0, 0.0, None, None, None, is_paused=False)
TICK = ScheduleStatus("cleanup", 0.0)


def state(*channels: ChannelStatus, limits: Limits | None = None) -> str:
    return queue_check(Queue(STATUS, list(channels), []), limits or Limits()).state


def test_a_queue_at_work_is_fine() -> None:
    check = queue_check(Queue(STATUS, [EMAILS], []), Limits())
    assert (check.state, check.detail) == ("ok", "3 jobs waiting, 1 running, 0 dead")


def test_dead_jobs_count_from_their_limit_on() -> None:
    dead = replace(EMAILS, dead=3)
    assert state(dead) == "problem"
    assert state(dead, limits=Limits(dead_jobs=3)) == "ok"
    assert state(dead, limits=Limits(ignored=frozenset({"emails"}))) == "ok"
    (problem,) = queue_check(Queue(STATUS, [dead], []), Limits()).problems
    assert problem.what == "3 jobs are dead, in the channels emails (3)"
    assert "milepost queue retry --all" in problem.remedy


def test_jobs_that_nobody_takes_count_unless_the_channel_is_paused() -> None:
    late = replace(EMAILS, oldest_due_seconds=3600.0)
    assert state(late) == "problem"
    assert state(replace(late, is_paused=True)) == "ok"
    assert state(replace(late, name=CHANNEL)) == "ok"


def test_faults_are_repaired_by_the_doctor() -> None:
    (problem,) = queue_check(Queue(STATUS, [], [Fault("hint", 2, 0)]), Limits()).problems
    assert problem.remedy == "milepost doctor --repair"


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, "ok"), (59.0, "ok"), (60.0, "problem")])
def test_a_schedule_that_does_not_tick_is_a_problem(seconds: float, expected: str) -> None:
    assert schedules_check([replace(TICK, overdue_seconds=seconds)], Limits()).state == expected


def test_a_schedule_whose_tick_is_still_to_come_is_never_overdue() -> None:
    assert schedules_check([TICK], Limits(schedule_seconds=0)).state == "ok"
