"""What operators do with schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.queue.schedules import admin
from milepost.ui.action import Action
from milepost.ui.actions.fields import text

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.ui.actions.fields import Fields


def pause(conn: Connection, schema: str, fields: Fields) -> str:
    name = text(fields, "name")
    admin.pause(conn, schema, name)
    return f"{name} is paused: it puts nothing until it is resumed."


def resume(conn: Connection, schema: str, fields: Fields) -> str:
    name = text(fields, "name")
    next_at = admin.resume(conn, schema, name)
    return f"{name} is resumed. Its next tick is {next_at.isoformat(' ', 'seconds')}."


def run(conn: Connection, schema: str, fields: Fields) -> str:
    name = text(fields, "name")
    return f"{name}: job {admin.run_now(conn, schema, name)} was put. The next tick stays."


def remove(conn: Connection, schema: str, fields: Fields) -> str:
    name = text(fields, "name")
    admin.remove(conn, schema, name)
    return f"{name} is removed."


ACTIONS = [
    Action("pause-schedule", "Pause", pause),
    Action("resume-schedule", "Resume", resume),
    Action("run-schedule", "Run now", run),
    Action(
        "remove-schedule",
        "Remove",
        remove,
        confirm="Remove the schedule {name}? An application that has it in its code adds it again "
        "when it starts.",
    ),
]
