"""What operators do with processors and their segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.errors import ResetNeedsApplication
from milepost.log import parse_start
from milepost.processors import admin
from milepost.processors.replay.reset import reset
from milepost.processors.segments import operations
from milepost.processors.set_aside.skip import skip
from milepost.records import Position
from milepost.ui.action import Action
from milepost.ui.actions.fields import beside, optional_text, optional_whole, text, whole

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection
    from milepost.records import Segment
    from milepost.ui.actions.fields import Fields

TIMEOUT_SECONDS = 20.0  # a browser waits meanwhile


def pause(conn: Connection, schema: str, fields: Fields) -> str:
    key = _found(conn, schema, fields)
    admin.set_paused(conn, schema, key, is_paused=True)
    return f"{_label(key)} is paused. It finishes its batch and then waits."


def resume(conn: Connection, schema: str, fields: Fields) -> str:
    key = _found(conn, schema, fields)
    admin.set_paused(conn, schema, key, is_paused=False)
    return f"{_label(key)} is resumed."


def skip_message(conn: Connection, schema: str, fields: Fields) -> str:
    key = _found(conn, schema, fields)
    at = optional_text(fields, "at")
    message = skip(conn, schema, key, None if at is None else Position.parse(at))
    return f"{_label(key)} skipped {message.position} {message.type}: it is a dead letter now."


def move(conn: Connection, schema: str, fields: Fields) -> str:
    """Reset handlers are functions of the application, which is another process."""
    key = _found(conn, schema, fields)
    if admin.has_reset_handlers(conn, schema, key):
        raise ResetNeedsApplication(key.processor)
    start = parse_start(text(fields, "to").strip())
    position = reset(conn, beside(conn), schema, key, start)
    return f"{_label(key)} continues after {position}."


def abandon(conn: Connection, schema: str, fields: Fields) -> str:
    key = _found(conn, schema, fields)
    admin.abandon(conn, schema, key)
    return f"{_label(key)} is abandoned: its checkpoint and its dead letters are gone."


def split(conn: Connection, schema: str, fields: Fields) -> str:
    key, segment = _found(conn, schema, fields), optional_whole(fields, "segment")
    return _sentence(key, operations.split(beside(conn), schema, key, segment, TIMEOUT_SECONDS))


def merge(conn: Connection, schema: str, fields: Fields) -> str:
    key, segment = _found(conn, schema, fields), optional_whole(fields, "segment")
    merged = operations.merge(beside(conn), schema, key, segment, TIMEOUT_SECONDS)
    return f"{_label(key)}: merged into segment {merged}."


def balance(conn: Connection, schema: str, fields: Fields) -> str:
    key = _found(conn, schema, fields)
    halves = operations.balance(beside(conn), schema, key, TIMEOUT_SECONDS)
    if halves is None:
        return f"{_label(key)}: no segment is behind, nothing to split."
    return _sentence(key, halves)


def release(conn: Connection, schema: str, fields: Fields) -> str:
    key, segment = _found(conn, schema, fields), whole(fields, "segment")
    operations.release(beside(conn), schema, key, segment, TIMEOUT_SECONDS)
    return f"{_label(key)}: segment {segment} is released. Any instance may claim it."


def _found(conn: Connection, schema: str, fields: Fields) -> CheckpointKey:
    return admin.find(conn, schema, text(fields, "name"), optional_whole(fields, "version"))


def _label(key: CheckpointKey) -> str:
    return key.processor if key.version == 1 else f"{key.processor} version {key.version}"


def _sentence(key: CheckpointKey, halves: tuple[Segment, Segment]) -> str:
    first, second = halves
    return f"{_label(key)}: segment {first.id} is split into {first.id} and {second.id}."


ACTIONS = [
    Action("pause-processor", "Pause", pause),
    Action("resume-processor", "Resume", resume),
    Action(
        "skip-message",
        "Skip message",
        skip_message,
        confirm="Skip the next message {at} of {name}? It is kept as a dead letter, and {name} "
        "continues behind it.",
    ),
    Action(
        "reset-processor",
        "Reset",
        move,
        confirm="Move the checkpoint of {name} to {to}? Messages behind it are handled again, or "
        "left out. The effects made so far stay.",
    ),
    Action(
        "abandon-processor",
        "Abandon",
        abandon,
        confirm="Forget processor {name}, with its checkpoint and its dead letters? It no longer "
        "keeps messages in the log.",
    ),
    # Each commits in steps: the owners must see what the operator asks for.
    Action("split-segment", "Split", split, in_transaction=False),
    Action("merge-segment", "Merge", merge, in_transaction=False),
    Action("balance-segments", "Balance", balance, in_transaction=False),
    Action("release-segment", "Release", release, in_transaction=False),
]
