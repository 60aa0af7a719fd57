"""What operators do with jobs and channels: cancel, retry, drop, singly and by filter; limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from milepost.errors import InvalidField
from milepost.queue import Policy, Rate, admin, pause_channel, policies, set_channel, unset_channel
from milepost.queue.admin import Status
from milepost.records import Verdict
from milepost.ui.action import Action
from milepost.ui.actions.fields import (
    optional_seconds,
    optional_text,
    optional_whole,
    text,
    wholes,
)
from milepost.words import count

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.ui.actions.fields import Fields

STATUSES: tuple[Status, ...] = get_args(Status)


def cancel(conn: Connection, schema: str, fields: Fields) -> str:
    return _cancelled(admin.cancel(conn, schema, wholes(fields, "ids")))


def retry(conn: Connection, schema: str, fields: Fields) -> str:
    return _retried(admin.retry(conn, schema, wholes(fields, "ids")))


def drop(conn: Connection, schema: str, fields: Fields) -> str:
    chosen = wholes(fields, "ids")
    return _dropped(len(chosen), len(admin.drop(conn, schema, chosen)))


def cancel_matching(conn: Connection, schema: str, fields: Fields) -> str:
    return _cancelled(admin.cancel(conn, schema, _matching(conn, schema, fields)))


def retry_matching(conn: Connection, schema: str, fields: Fields) -> str:
    return _retried(admin.retry(conn, schema, _matching(conn, schema, fields, "dead")))


def drop_matching(conn: Connection, schema: str, fields: Fields) -> str:
    chosen = _matching(conn, schema, fields, "dead")
    return _dropped(len(chosen), len(admin.drop(conn, schema, chosen)))


def status_of(fields: Fields) -> Status | None:
    """The field `status`, if it is filled in."""
    found = optional_text(fields, "status")
    for status in STATUSES:
        if found == status:
            return status
    if found is None:
        return None
    raise InvalidField("status", found, f"one of {', '.join(STATUSES)}")


def pause(conn: Connection, schema: str, fields: Fields) -> str:
    name = text(fields, "name")
    pause_channel(conn, name, paused=True, schema=schema)
    return f"{name} is paused: no job is taken from it, running ones finish."


def resume(conn: Connection, schema: str, fields: Fields) -> str:
    name = text(fields, "name")
    pause_channel(conn, name, paused=False, schema=schema)
    return f"{name} is resumed."


def limit(conn: Connection, schema: str, fields: Fields) -> str:
    """All limits: an empty field removes one. A paused channel stays paused."""
    name = text(fields, "name")
    before = policies(conn, schema).get(name, Policy())
    rate = optional_whole(fields, "rate")
    policy = Policy(
        optional_whole(fields, "max_concurrency"),
        optional_seconds(fields, "release_seconds"),
        optional_whole(fields, "max_size"),
        before.paused,
        optional_whole(fields, "max_concurrency_total"),
        None if rate is None else _rate(rate, fields),
    )
    set_channel(conn, name, policy, schema)
    return f"The limits of {name} are set, for all workers."


def unlimit(conn: Connection, schema: str, fields: Fields) -> str:
    name = text(fields, "name")
    was_set = unset_channel(conn, name, schema)
    return f"{name}: {'its policy was removed' if was_set else 'it had no policy'}."


def _rate(number: int, fields: Fields) -> Rate:
    per, burst = optional_seconds(fields, "per_seconds"), optional_whole(fields, "burst")
    return Rate(number, 1.0 if per is None else per, 1 if burst is None else burst)


def _matching(
    conn: Connection, schema: str, fields: Fields, only: Status | None = None
) -> list[int]:
    """Of all that match, those of the status that the action is for."""
    status = status_of(fields)
    if only is not None and status not in (None, only):
        raise InvalidField("status", str(status), f"{only}, or none")
    return admin.find_ids(
        conn,
        schema,
        channel=optional_text(fields, "channel"),
        status=only or status,
        search=optional_text(fields, "search"),
    )


def _cancelled(verdicts: Sequence[Verdict]) -> str:
    words = {Verdict.DONE: "cancelled", Verdict.CANCELLED: "asked to stop"}
    return _sentence(verdicts, words, "already finished")


def _retried(verdicts: Sequence[Verdict]) -> str:
    words = {Verdict.DONE: "ready again"}
    return _sentence(verdicts, words, "not dead any more, or their unique key is taken")


def _sentence(verdicts: Sequence[Verdict], words: dict[Verdict, str], other: str) -> str:
    counted = Counter(words.get(verdict, other) for verdict in verdicts)
    parts = [f"{count(number, 'job')} {word}" for word, number in counted.items()]
    return f"{'; '.join(parts) or 'no job matches'}.".capitalize()


def _dropped(chosen: int, dropped: int) -> str:
    rest = f"; {count(chosen - dropped, 'job')} not dead any more" if chosen > dropped else ""
    return f"{count(dropped, 'dead job')} dropped{rest}."


_FILTER = "that match the filter (channel: {channel}, status: {status}, search: {search})"
ACTIONS = [
    Action(
        "cancel-job",
        "Cancel",
        cancel,
        confirm="Cancel job {ids}? One that waits is not run; one that runs is asked to stop.",
        subject_field="ids",
    ),
    Action("retry-job", "Retry", retry, subject_field="ids"),
    Action(
        "drop-job",
        "Drop",
        drop,
        confirm="Delete the dead job {ids} for good? Jobs that wait for it go on.",
        subject_field="ids",
    ),
    Action(
        "cancel-jobs",
        "Cancel all that match",
        cancel_matching,
        confirm=f"Cancel all jobs {_FILTER}? Those that run are asked to stop.",
        subject_field="channel",
    ),
    Action("retry-jobs", "Retry all that match", retry_matching, subject_field="channel"),
    Action(
        "drop-jobs",
        "Drop all that match",
        drop_matching,
        confirm=f"Delete all dead jobs {_FILTER} for good?",
        subject_field="channel",
    ),
    Action("pause-channel", "Pause", pause),
    Action("resume-channel", "Resume", resume),
    Action("limit-channel", "Save", limit),
    Action(
        "unset-channel",
        "Remove limits",
        unlimit,
        confirm="Remove the policy of {name}? Then that of its family applies, or none.",
    ),
]
