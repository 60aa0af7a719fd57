"""`milepost schedules`: when each schedule ticks, and what operators can do with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from milepost.app import Milepost
from milepost.cli import options, output
from milepost.cli.on_log import command_of, new_group
from milepost.queue.schedules import admin
from milepost.queue.schedules.admin import ScheduleStatus
from milepost.words import duration

if TYPE_CHECKING:
    from datetime import datetime

TICKS = 3  # of each schedule, in JSON


def list_all(mp: Milepost, as_json: options.AsJson = False) -> None:
    """List all schedules with their next ticks."""
    with mp.connect() as conn:
        found = admin.list_schedules(conn, mp.schema)
    output.print_listing(found, as_document, _print_schedules, as_json=as_json)


app = new_group("Schedules: list, pause, resume, run, remove.", list_all, "list")


@command_of(app)
def pause(mp: Milepost, name: options.Name) -> None:
    """Pause a schedule: it puts nothing until it is resumed."""
    with mp.connect() as conn:
        admin.pause(conn, mp.schema, name)
    typer.echo(f"{name}: paused")


@command_of(app)
def resume(mp: Milepost, name: options.Name) -> None:
    """Resume a paused schedule. Ticks that were due meanwhile are left out."""
    with mp.connect() as conn:
        next_at = admin.resume(conn, mp.schema, name)
    typer.echo(f"{name}: resumed, next tick {_time(next_at)}")


@command_of(app)
def run(mp: Milepost, name: options.Name, as_json: options.AsJson = False) -> None:
    """Put the job of a schedule now, and print its id. The next tick stays where it is."""
    with mp.connect() as conn:
        id_ = admin.run_now(conn, mp.schema, name)
    output.print_result({"id": id_}, id_, as_json=as_json)


@command_of(app)
def remove(mp: Milepost, name: options.Name, yes: options.Yes = False) -> None:
    """Remove a schedule. An application that has it in its code adds it again when it starts."""
    with mp.connect() as conn:
        found = admin.find(conn, mp.schema, name)
        output.confirm(f"remove the schedule {name}{_still_used(found)}", yes=yes)
        admin.remove(conn, mp.schema, name)
    typer.echo(f"{name}: removed")


def as_document(schedule: ScheduleStatus) -> dict[str, Any]:
    computed = {
        "every_seconds": None if schedule.every is None else schedule.every.total_seconds(),
        "next_ticks": schedule.next_ticks(TICKS),
        "is_failing": schedule.is_failing,
        "is_orphaned": schedule.is_orphaned,
    }
    document = asdict(schedule)
    del document["every"]
    return document | computed


def _print_schedules(found: Sequence[ScheduleStatus]) -> None:
    output.print_table([_cells(schedule) for schedule in found], "no schedule is registered")
    for schedule in found:
        if schedule.last_error is not None:
            failures = f"{schedule.name} failed {schedule.failures} times in a row"
            output.print_remark(f"{failures}: {schedule.last_error}", "red")


def _cells(schedule: ScheduleStatus) -> dict[str, str]:
    last = schedule.last_tick_at
    return {
        "schedule": schedule.name,
        "when": schedule.when,
        "channel": schedule.channel,
        "next tick": "-" if schedule.is_paused else _time(schedule.next_at),
        "last tick": "-" if last is None else _time(last),
        "state": ", ".join(_states(schedule)) or "ok",
    }


def _states(schedule: ScheduleStatus) -> list[str]:
    states = {
        "paused": schedule.is_paused,
        "failing": schedule.is_failing,
        "orphaned": schedule.is_orphaned,
        f"overdue by {duration(schedule.overdue_seconds)}": (
            not schedule.is_paused and schedule.overdue_seconds > 1.0
        ),
    }
    return [state for state, holds in states.items() if holds]


def _still_used(schedule: ScheduleStatus) -> str:
    if schedule.is_orphaned:
        return ""
    return f", which {schedule.registered_by} has in its code and adds again when it starts"


def _time(moment: datetime) -> str:
    return moment.astimezone().isoformat(" ", "seconds")
