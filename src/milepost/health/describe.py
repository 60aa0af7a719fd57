"""The server, the log and its horizon in a line each, with their problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from milepost.health.check import Check, Limits
from milepost.words import count, duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.log.diagnosis import Area, Diagnosis


def log_checks(diagnosis: Diagnosis, limits: Limits) -> list[Check]:
    problems = diagnosis.problems(limits.warn_seconds)
    return [
        Check(name, detail, tuple(problem for problem in problems if problem.area == name))
        for name, detail in _details(diagnosis)
    ]


def _details(diagnosis: Diagnosis) -> Iterator[tuple[Area | Literal["wake-up"], str]]:
    server = diagnosis.server
    standby = ", a standby" if server.is_standby else ""
    yield "server", f"PostgreSQL {server.version}, database {server.database}{standby}"
    yield "schema", _schema(diagnosis)
    if not diagnosis.fits:
        return
    yield "log", _log(diagnosis)
    if not diagnosis.refusal:  # else there is no horizon; the check of the log or server says so
        yield "horizon", _horizon(diagnosis)
    yield "locks", _locks(diagnosis)
    yield "wake-up", f"notifications are {'on' if server.is_notifying else 'off: readers poll'}"


def _schema(diagnosis: Diagnosis) -> str:
    if diagnosis.migration is None:
        return f"{diagnosis.schema} does not exist"
    order = f", {diagnosis.contents.order} order" if diagnosis.contents else ""
    return f"{diagnosis.schema} at migration {diagnosis.migration}{order}"


def _log(diagnosis: Diagnosis) -> str:
    contents = diagnosis.contents
    if contents is None:
        return "unknown"
    incomplete = "".join(f", index {name} not complete" for name in contents.incomplete_indexes)
    if contents.newest is None or contents.newest_age_seconds is None:
        return f"no messages{incomplete}"
    about = "" if contents.is_exact else "about "
    age = duration(contents.newest_age_seconds)
    messages = count(contents.messages, "message")
    newest = f"the newest {contents.newest}, recorded {age} ago"
    return f"{about}{messages}, {newest}{incomplete}"


def _horizon(diagnosis: Diagnosis) -> str:
    if diagnosis.horizon is None:
        return "unknown"
    position = diagnosis.horizon.position
    if not diagnosis.holders:
        return f"{position}, not held"
    age = "" if diagnosis.held_seconds is None else f" for {duration(diagnosis.held_seconds)}"
    return f"{position}, held{age} by {count(len(diagnosis.holders), 'transaction')}"


def _locks(diagnosis: Diagnosis) -> str:
    waiting = diagnosis.waiting
    if not waiting:
        return "no session waits"
    longest = duration(waiting[0].waited_seconds or 0.0)
    verb = "waits" if len(waiting) == 1 else "wait"
    return f"{count(len(waiting), 'session')} {verb}, for up to {longest}"
