"""The queue: what nobody looks after, what is dead, what is due, and schedules that do not tick."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg.rows import class_row

from milepost import sql
from milepost.health.check import TOLD, Check, Limits, listed
from milepost.log.diagnosis import Problem
from milepost.queue import admin, invariants
from milepost.queue.schedules import CHANNEL
from milepost.words import count, duration

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.queue.admin import ChannelStatus, QueueStatus
    from milepost.queue.invariants import Fault


@dataclass(frozen=True, slots=True)
class Queue:
    """How the queue is, and what is wrong with it."""

    status: QueueStatus
    channels: list[ChannelStatus]
    faults: list[Fault]


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """A schedule that waits for its next tick, or for a scheduler."""

    name: str
    overdue_seconds: float  # 0: its tick is still to come


def look_at_queue(conn: Connection, schema: str, limits: Limits) -> Queue:
    return Queue(
        admin.summary(conn, schema),
        admin.list_channels(conn, schema),
        invariants.check(conn, limits.late_seconds, schema),
    )


def look_at_schedules(conn: Connection, schema: str) -> list[ScheduleStatus]:
    with conn.cursor(row_factory=class_row(ScheduleStatus)) as cursor:
        query = sql.query("health_schedules", schema)
        return cursor.execute(query, {"channel": CHANNEL}).fetchall()


def queue_check(queue: Queue, limits: Limits) -> Check:
    status = queue.status
    waiting = count(status.ready + status.scheduled, "job")
    detail = f"{waiting} waiting, {status.running:,} running, {status.dead:,} dead"
    channels = [c for c in queue.channels if c.name not in limits.ignored]
    problems = (*map(_fault, queue.faults), *_dead(channels, limits), *_due(channels, limits))
    return Check("queue", detail, problems)


def schedules_check(found: Sequence[ScheduleStatus], limits: Limits) -> Check:
    late = [s for s in found if s.overdue_seconds >= max(limits.schedule_seconds, 0.001)]
    detail = f"{count(len(found), 'schedule')}, {len(late)} overdue"
    if not late:
        return Check("schedules", detail if found else "none")
    names = listed([repr(schedule.name) for schedule in late])
    seconds = max(schedule.overdue_seconds for schedule in late)
    verb = "schedule is" if len(late) == 1 else "schedules are"
    problem = Problem(
        "schedules",
        f"{len(late)} {verb} overdue, by up to {duration(seconds)}: {names}",
        "run an application that has schedules: milepost run MODULE:NAME; one that is no longer "
        f"wanted: milepost queue list --channel {CHANNEL}, then milepost queue cancel ID",
    )
    return Check("schedules", detail, (problem,))


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
    """Beyond the limit, whether nobody works there or too few."""
    late = [
        (channel, channel.oldest_due_seconds)
        for channel in channels
        if channel.name != CHANNEL  # has a check of its own
        and not channel.is_paused
        and channel.oldest_due_seconds is not None
        and channel.oldest_due_seconds >= limits.due_seconds
    ]
    for channel, seconds in late[:TOLD]:
        yield Problem(
            "queue",
            f"A job of {channel.name!r} has been due for {duration(seconds)}: {channel.ready:,} "
            f"are ready, {channel.rate:,.0f} a second are done",
            f"run a worker for it, or more: milepost run MODULE:NAME --only {channel.name}",
        )
    if more := [channel.name for channel, _ in late[TOLD:]]:
        what = f"Jobs of {count(len(more), 'channel')} more have been due for as long"
        yield Problem("queue", f"{what}: {listed(more)}", "milepost channels")
