"""The server, the log and its horizon in a line each, with what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.health.check import Check, Limits
from milepost.words import count, duration

if TYPE_CHECKING:
    from milepost.log.diagnosis import Diagnosis


def log_checks(diagnosis: Diagnosis, limits: Limits) -> list[Check]:
    problems = diagnosis.problems(limits.warn_seconds)
    return [
        Check(check.name, check.detail, tuple(p for p in problems if p.area == check.name))
        for check in _facts(diagnosis)
    ]


def _facts(diagnosis: Diagnosis) -> list[Check]:
    server = diagnosis.server
    standby = ", a standby" if server.is_standby else ""
    place = f"PostgreSQL {server.version}, database {server.database}{standby}"
    facts = [Check("server", place), Check("schema", _schema(diagnosis))]
    if not diagnosis.fits:
        return facts
    notifying = f"notifications are {'on' if server.is_notifying else 'off: readers poll'}"
    # A log that cannot be read here has no horizon; that is said of the log, or of the server.
    horizon = [] if diagnosis.refusal else [Check("horizon", _horizon(diagnosis))]
    return [
        *facts,
        Check("log", _log(diagnosis)),
        *horizon,
        Check("locks", _locks(diagnosis)),
        Check("wake-up", notifying),
    ]


def _schema(diagnosis: Diagnosis) -> str:
    if diagnosis.migration is None:
        return f"{diagnosis.schema} is not there"
    order = f", {diagnosis.contents.order} order" if diagnosis.contents else ""
    return f"{diagnosis.schema} at migration {diagnosis.migration}{order}"


def _log(diagnosis: Diagnosis) -> str:
    contents = diagnosis.contents
    if contents is None:
        return "not known"
    if contents.newest is None or contents.newest_age_seconds is None:
        return "no messages"
    about = "" if contents.is_exact else "about "
    age = duration(contents.newest_age_seconds)
    messages = count(contents.messages, "message")
    return f"{about}{messages}, the newest {contents.newest}, recorded {age} ago"


def _horizon(diagnosis: Diagnosis) -> str:
    if diagnosis.horizon is None:
        return "not known"
    position = diagnosis.horizon.position
    if not diagnosis.holders:
        return f"{position}, not held"
    age = "" if diagnosis.held_seconds is None else f" for {duration(diagnosis.held_seconds)}"
    return f"{position}, held{age} by {count(len(diagnosis.holders), 'transaction')}"


def _locks(diagnosis: Diagnosis) -> str:
    waiting = diagnosis.waiting
    if not waiting:
        return "nobody waits"
    longest = duration(waiting[0].waited_seconds or 0.0)
    verb = "waits" if len(waiting) == 1 else "wait"
    return f"{count(len(waiting), 'session')} {verb}, for up to {longest}"
