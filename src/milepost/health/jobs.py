"""The queue: neglected jobs, dead jobs, jobs that are due too long, and schedules that are overdue
or fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from milepost import db
from milepost.health.check import TOLD, Check, Limits, first_line, listed
from milepost.log.diagnosis import Problem
from milepost.queue import admin
from milepost.queue import health as queue_health
from milepost.queue.schedules import Scheduler
from milepost.words import count, duration, stated

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


@dataclass(frozen=True, slots=True)
class JobLock:
    """A transaction that has locked jobs. A prepared one has no pid."""

    pid: int | None
    prepared: str | None
    application: str | None
    username: str | None
    state: str | None
    age_seconds: float | None  # None: hidden from us
    channels: list[str]
    jobs: int


def late_channels(queue: Queue, limits: Limits) -> list[str]:
    """Those with jobs that are due for longer than a worker needs to take them."""
    late = [c for c in queue.channels if (c.oldest_due_seconds or 0.0) >= limits.late_seconds]
    return [channel.name for channel in late[:100]]


def look_at_locks(conn: Connection, schema: str, channels: list[str]) -> list[JobLock]:
    return db.fetch_records(conn, schema, "health_job_locks", JobLock, channels=channels)


def with_locks(check: Check, found: Sequence[JobLock], limits: Limits) -> Check:
    """The check of the queue, with those who keep workers from due jobs first: more workers would
    not help."""
    lasting = [
        lock for lock in found if lock.age_seconds is None or lock.age_seconds > limits.warn_seconds
    ]
    names = {name for lock in lasting for name in lock.channels}
    needless = {_worker_remedy(name) for name in names}
    others = (problem for problem in check.problems if problem.remedy not in needless)
    return replace(check, problems=(*map(_locked, lasting[:TOLD]), *others))


def _locked(lock: JobLock) -> Problem:
    who = f"pid {lock.pid}" if lock.prepared is None else f"prepared transaction {lock.prepared!r}"
    age = "" if lock.age_seconds is None else f" for {duration(lock.age_seconds)}"
    parts = [lock.application, f"user {lock.username}", f"{lock.state or 'state hidden'}{age}"]
    facts = ", ".join(part for part in parts if part)
    verb = "is" if lock.jobs == 1 else "are"
    remedy = f"select pg_terminate_backend({lock.pid})"
    if lock.prepared is not None:
        name = lock.prepared.replace("'", "''")
        remedy = f"rollback prepared '{name}'"
    return Problem(
        "queue",
        f"{count(lock.jobs, 'due job')} of {listed(lock.channels)} {verb} locked by {who} "
        f"({facts}): workers skip them",
        f"end it: {remedy}",
    )


def look_at_queue(conn: Connection, schema: str, limits: Limits) -> Queue:
    return Queue(
        admin.summary(conn, schema, max_counted=None),
        admin.list_channels(conn, schema, max_counted=None),
        queue_health.check(conn, limits.late_seconds, schema),
    )


def queue_check(queue: Queue, limits: Limits) -> Check:
    status = queue.status
    number = status.ready + status.scheduled + status.waiting
    about = "~" if {"ready", "scheduled", "waiting"}.intersection(status.estimated) else ""
    running, dead = stated(status, "running"), stated(status, "dead")
    detail = f"{about}{count(number, 'job')} waiting, {running} running, {dead} dead"
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
    where = listed([f"{channel.name} ({stated(channel, 'dead')})" for channel in dead])
    verb = "is" if number == 1 else "are"
    yield Problem(
        "queue",
        f"{count(number, 'job')} {verb} dead, in the channels {where}",
        "see why: milepost queue dead; then milepost queue retry --all, or milepost queue drop "
        "--all",
    )


def _worker_remedy(name: str) -> str:
    return f"run a worker for it, or more workers: milepost run MODULE:NAME --only {quote(name)}"


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
            f"A job of {channel.name!r} has been due for {duration(seconds)}: "
            f"{stated(channel, 'ready')} are ready, {channel.rate:,.0f} per second are completed",
            _worker_remedy(channel.name),
        )
    if more := [channel.name for channel, _ in late[TOLD:]]:
        what = f"Jobs of {count(len(more), 'channel')} more have been due for as long"
        yield Problem("queue", f"{what}: {listed(more)}", "milepost channels")
