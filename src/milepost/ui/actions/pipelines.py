"""What operators do with pipelines and their versions. A rebuild: `ui/rebuilds.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.pipeline import admin
from milepost.ui.action import Action
from milepost.ui.actions.fields import text, whole

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.ui.actions.fields import Fields


def pause(conn: Connection, schema: str, fields: Fields) -> str:
    name = text(fields, "name")
    admin.set_paused(conn, schema, name, is_paused=True)
    return f"{name} is paused. It finishes its batch and then waits; a rebuild continues."


def resume(conn: Connection, schema: str, fields: Fields) -> str:
    name = text(fields, "name")
    admin.set_paused(conn, schema, name, is_paused=False)
    return f"{name} is resumed."


def swap(conn: Connection, schema: str, fields: Fields) -> str:
    name = text(fields, "name")
    before, after = admin.roll_back(conn, schema, name, whole(fields, "version"))
    return f"{name} shows version {after}. Version {before} is kept."


def roll_back(conn: Connection, schema: str, fields: Fields) -> str:
    name = text(fields, "name")
    before, after = admin.roll_back(conn, schema, name)
    return f"{name} shows version {after} again. Version {before} is kept."


def drop(conn: Connection, schema: str, fields: Fields) -> str:
    name, version = text(fields, "name"), whole(fields, "version")
    admin.refuse_undroppable(conn, schema, name, version)
    admin.drop(conn, schema, name, version)
    return f"{name} version {version} is dropped, with its table."


_EARLIER = "It continues at its own position: until it has caught up, the target shows older rows."
ACTIONS = [
    Action("pause-pipeline", "Pause", pause),
    Action("resume-pipeline", "Resume", resume),
    Action(
        "swap-pipeline",
        "Show this version",
        swap,
        confirm="Let the target of {name} show version {version}? " + _EARLIER,
    ),
    Action(
        "roll-back-pipeline",
        "Roll back",
        roll_back,
        confirm="Let the target of {name} show its previous version? " + _EARLIER,
    ),
    Action(
        "drop-pipeline-version",
        "Drop",
        drop,
        confirm="Drop version {version} of {name}, with its table and its checkpoint?",
    ),
]
