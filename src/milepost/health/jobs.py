"""The queue: neglected jobs, dead jobs, jobs that are due too long, and schedules that are overdue
or fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

from milepost.health.check import TOLD, Check, Limits, first_line, listed
from milepost.log.diagnosis import Problem
from milepost.queue import admin
from milepost.queue import health as queue_health
from milepost.queue.schedules import Scheduler
from milepost.words import count, duration

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.queue.admin import ChannelStatus, QueueStatus
    from milepost.queue.health import Fault
    from milepost.queue.schedules.admin import ScheduleStatus


@dataclass(frozen=True, slots=True)
class Queue:
    """The state of the queue, and its faults."""

    status: QueueStatus
    channels: list[ChannelStatus]
    faults: list[Fault]


def look_at_queue(conn: Connection, schema: str, limits: Limits) -> Queue:
    return Queue(
        admin.summary(conn, schema, max_counted=None),
        admin.list_channels(conn, schema, max_counted=None),
        queue_health.check(conn, limits.late_seconds, schema),
    )


def queue_check(queue: Queue, limits: Limits) -> Check:
    status = queue.status
    waiting = count(status.ready + status.scheduled + status.waiting, "job")
    detail = f"{waiting} waiting, {status.running:,} running, {status.dead:,} dead"
    channels = [c for c in queue.channels if c.name not in limits.ignored]
    problems = (*map(_fault, queue.faults), *_dead(channels, limits), *_due(channels, limits))
    return Check("queue", detail, problems)


def schedules_check(found: Sequence[ScheduleStatus], limits: Limits) -> Check:
    """A schedule that fails is overdue too: its tick stays due until it is put."""
    late = [
        schedule
        for schedule in found
        if not schedule.is_paused
        and schedule.overdue_seconds >= max(limits.schedule_seconds, 0.001)
    ]
    failing = [schedule for schedule in late if schedule.is_failing]
    waiting = [schedule for schedule in late if not schedule.is_failing]
    problems = (*_failing(failing), *_overdue(waiting))
    return Check("schedules", _schedules(found, len(late)) if found else "none", problems)


def _schedules(found: Sequence[ScheduleStatus], late: int) -> str:
    counts = {
        "failing": sum(schedule.is_failing for schedule in found),
        "paused": sum(schedule.is_paused for schedule in found),
        "orphaned": sum(schedule.is_orphaned for schedule in found),
    }
    others = [f"{number} {state}" for state, number in counts.items() if number]
    return ", ".join([count(len(found), "schedule"), f"{late} overdue", *others])


def _failing(late: Sequence[ScheduleStatus]) -> Iterator[Problem]:
    for schedule in late[:TOLD]:
        yield Problem(
            "schedules",
            f"The schedule {schedule.name!r} has failed {count(schedule.failures, 'time')} in a "
            f"row and is overdue by {duration(schedule.overdue_seconds)}: "
            f"{first_line(schedule.last_error or '')}",
            "repair the cause, it is tried again at least every minute; or milepost schedules "
            f"pause {quote(schedule.name)}",
        )
    if more := [schedule.name for schedule in late[TOLD:]]:
        what = f"{count(len(more), 'schedule')} more cannot be put: {listed(more)}"
        yield Problem("schedules", what, "milepost schedules")


def _overdue(late: Sequence[ScheduleStatus]) -> Iterator[Problem]:
    if not late:
        return
    names = listed([repr(schedule.name) for schedule in late])
    seconds = max(schedule.overdue_seconds for schedule in late)
    verb = "schedule is" if len(late) == 1 else "schedules are"
    yield Problem(
        "schedules",
        f"{len(late)} {verb} overdue, by up to {duration(seconds)}: {names}",
        "run an application that has schedules: milepost run MODULE:NAME; to remove one that is "
        "not needed: milepost schedules remove NAME",
    )


def _fault(fault: Fault) -> Problem:
    return Problem("queue", fault.what[0].upper() + fault.what[1:], "milepost doctor --repair")


def _dead(channels: Sequence[ChannelStatus], limits: Limits) -> Iterator[Problem]:
    dead = [channel for channel in channels if channel.dead]
    number = sum(channel.dead for channel in dead)
    if number <= limits.dead_jobs:
        return
    where = listed([f"{channel.name} ({channel.dead:,})" for channel in dead])
    verb = "is" if number == 1 else "are"
    yield Problem(
        "queue",
        f"{count(number, 'job')} {verb} dead, in the channels {where}",
        "see why: milepost queue dead; then milepost queue retry --all, or milepost queue drop "
        "--all",
    )


def _due(channels: Sequence[ChannelStatus], limits: Limits) -> Iterator[Problem]:
    """Jobs that are due for longer than the limit: no workers, or too few."""
    late = [
        (channel, channel.oldest_due_seconds)
        for channel in channels
        if channel.name != Scheduler.name  # has its own check
        and not channel.is_paused
        and channel.oldest_due_seconds is not None
        and channel.oldest_due_seconds >= limits.due_seconds
    ]
    for channel, seconds in late[:TOLD]:
        yield Problem(
            "queue",
            f"A job of {channel.name!r} has been due for {duration(seconds)}: {channel.ready:,} "
            f"are ready, {channel.rate:,.0f} per second are completed",
            "run a worker for it, or more workers: milepost run MODULE:NAME "
            f"--only {quote(channel.name)}",
        )
    if more := [channel.name for channel, _ in late[TOLD:]]:
        what = f"Jobs of {count(len(more), 'channel')} more have been due for as long"
        yield Problem("queue", f"{what}: {listed(more)}", "milepost channels")
