from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from milepost.health.check import Limits
from milepost.health.jobs import Queue, queue_check, schedules_check
from milepost.queue.admin import ChannelStatus, QueueStatus
from milepost.queue.health import Fault
from milepost.queue.schedules import Scheduler
from milepost.queue.schedules.admin import ScheduleStatus

STATUS = QueueStatus(2, 1, 1, 0, 0, 1, 3.0, 0.0)
EMAILS = ChannelStatus("emails", 2, 1, 1, 0, 3.0, 0.0, None, None, None, is_paused=False)
MOMENT = datetime(2030, 1, 1, tzinfo=UTC)
TICK = ScheduleStatus(
    "cleanup", timedelta(hours=1), None, None, MOMENT, MOMENT, "chores", is_paused=False,
    last_tick_at=None, last_job_id=None, failures=0, retry_at=None, last_error=None,
    registered_by="me", registered_at=MOMENT, last_seen_at=MOMENT, overdue_seconds=0.0,
    unseen_seconds=1.0,
)  # fmt: skip


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
    assert state(replace(late, name=Scheduler.name)) == "ok"


def test_faults_are_repaired_by_the_doctor() -> None:
    (problem,) = queue_check(Queue(STATUS, [], [Fault("hint", 2, 0)]), Limits()).problems
    assert problem.remedy == "milepost doctor --repair"


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, "ok"), (59.0, "ok"), (60.0, "problem")])
def test_a_schedule_that_does_not_tick_is_a_problem(seconds: float, expected: str) -> None:
    assert schedules_check([replace(TICK, overdue_seconds=seconds)], Limits()).state == expected


def test_a_schedule_whose_tick_is_still_to_come_is_never_overdue() -> None:
    assert schedules_check([TICK], Limits(schedule_seconds=0)).state == "ok"


def test_a_schedule_that_keeps_failing_is_a_problem_with_its_error() -> None:
    failing = replace(TICK, failures=7, overdue_seconds=90.0, last_error="ChannelFull: it is full")
    check = schedules_check([TICK, failing], Limits())
    (problem,) = check.problems
    assert "'cleanup' has failed 7 times in a row" in problem.what
    assert "ChannelFull: it is full" in problem.what
    assert check.detail == "2 schedules, 1 overdue, 1 failing"
    assert schedules_check([replace(failing, overdue_seconds=3.0)], Limits()).state == "ok"


def test_paused_and_orphaned_schedules_are_counted_and_are_no_problem() -> None:
    paused = replace(TICK, is_paused=True, overdue_seconds=9999.0)
    orphaned = replace(TICK, unseen_seconds=600.0)
    check = schedules_check([paused, orphaned, replace(TICK, unseen_seconds=None)], Limits())
    assert (check.state, check.detail) == ("ok", "3 schedules, 0 overdue, 1 paused, 2 orphaned")


def test_many_that_fail_are_told_in_one_line() -> None:
    failing = replace(TICK, failures=1, overdue_seconds=90.0, last_error="x")
    problems = schedules_check([failing] * 8, Limits()).problems
    assert len(problems) == 6
    assert problems[-1].what == "3 schedules more cannot be put: cleanup, cleanup, cleanup"
