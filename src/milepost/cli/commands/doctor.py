"""`milepost doctor`: whether everything is healthy, which sessions block, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, asdict, fields, replace
from inspect import Parameter
from typing import Annotated, Any, cast

import psycopg
import typer

from milepost import db, sql
from milepost.app import Milepost
from milepost.cli import options
from milepost.cli.database import open_log
from milepost.cli.failures import in_one_line
from milepost.cli.on_log import Bundle, expanded, option
from milepost.cli.output import console, print_json, shortened
from milepost.errors import MilepostError
from milepost.health import Check, Limits, Report
from milepost.log.diagnosis import Diagnosis, Holder, LockSession, Problem
from milepost.queue import health
from milepost.words import duration

PROBLEM, COULD_NOT_LOOK = 1, 2
_STYLES = {"ok": "green", "problem": "bold red", "unknown": "bold yellow"}
_WIDTH = 76


class CouldNotLook(MilepostError):
    """Nothing could be checked: neither health nor problems are known."""

    exit_code = COULD_NOT_LOOK  # of the command


def _limit_option(limit: Field[Any]) -> Parameter:
    """The ages and shares keep their names as options; counts and sizes become --max-..."""
    is_scale = limit.name.endswith(("_seconds", "_percent"))
    least = 0.001 if limit.name == "look_seconds" else 0
    info = typer.Option(min=least, help=limit.metadata["help"])
    annotation = cast(Any, Annotated)[type(limit.default), info]
    return option(limit.name if is_scale else f"max_{limit.name}", annotation, limit.default)


def _limits(**given: Any) -> Limits:
    return Limits(**{name.removeprefix("max_"): value for name, value in given.items()})


LIMITS = Bundle([_limit_option(each) for each in fields(Limits) if each.metadata], _limits)


def doctor(
    limits: Limits,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    ignored: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore", metavar="NAME", help="Skip this processor, pipeline or channel. Repeatable."
        ),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="First repair what can be repaired in the queue.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Check the log, processors, pipelines, the queue and the disk. Report what is wrong, which
    sessions block others, and what to do.

    Exits with 0 if everything is healthy, with 1 if there is a problem or a check has no result,
    and with 2 if nothing could be checked: no server, no schema, or no privilege.
    """
    limits = replace(limits, ignored=frozenset(ignored or ()))
    try:
        report = _examined(open_log(url, schema), limits, repair=repair)
    except (MilepostError, psycopg.Error) as error:
        reason = in_one_line(error)
        if as_json:
            print_json({"ok": False, "checks": [], "problems": [], "error": reason})
        raise CouldNotLook(reason) from error
    if as_json:
        print_json(report_document(report))
    else:
        _print(report)
    if not report.diagnosis.fits:
        raise typer.Exit(COULD_NOT_LOOK)
    if report.problems:
        raise typer.Exit(PROBLEM)


command = expanded(doctor, limits=LIMITS)


def report_document(report: Report) -> dict[str, Any]:
    queue = report.queue
    return as_document(report.diagnosis, report.problems) | {
        "checks": [check_document(check) for check in report.checks],
        "queue": queue and asdict(queue.status),
        "queue_faults": queue and [asdict(fault) for fault in queue.faults],
    }


def check_document(check: Check) -> dict[str, Any]:
    return {
        "name": check.name,
        "state": check.state,
        "detail": check.detail,
        "hint": check.hint,
        "problems": [
            {"what": problem.what, "hint": problem.remedy, "is_unknown": problem.is_unknown}
            for problem in check.problems
        ],
    }


def as_document(diagnosis: Diagnosis, problems: list[Problem]) -> dict[str, Any]:
    contents, horizon = diagnosis.contents, diagnosis.horizon
    return {
        "ok": not problems,
        "problems": [asdict(problem) for problem in problems],
        "schema": diagnosis.schema,
        "migration": diagnosis.migration,
        "needed_migration": diagnosis.needed_migration,
        "server": asdict(diagnosis.server),
        "order": contents and contents.order,
        "messages": contents and contents.messages,
        "messages_is_exact": contents and contents.is_exact,
        "newest": str(contents.newest) if contents and contents.newest else None,
        "newest_age_seconds": contents and contents.newest_age_seconds,
        "horizon": str(horizon.position) if horizon else None,
        "is_held": horizon and horizon.is_held,
        "held_seconds": diagnosis.held_seconds,
        "holders": [asdict(holder) for holder in diagnosis.holders],
        "blocking": [asdict(session) for session in diagnosis.blocking],
        "waiting": [asdict(session) for session in diagnosis.waiting],
    }


def people(diagnosis: Diagnosis) -> Iterator[list[str]]:
    """The sessions that block others, each with the command that ends it; then those that wait."""
    waiting = {session.pid for session in diagnosis.waiting}
    holding = {holder.pid for holder in diagnosis.holders}
    for holder in diagnosis.holders:
        if holder.pid not in waiting:
            yield list(holder_lines(holder, diagnosis.server.database))
    for session in diagnosis.blocking:
        if session.pid not in holding:
            yield list(blocker_lines(session))
    for session in diagnosis.waiting:
        yield list(waiter_lines(session, holds_horizon=session.pid in holding))


def holder_lines(holder: Holder, database: str) -> Iterator[str]:
    who = f"pid {holder.pid}" if holder.prepared is None else f"prepared {holder.prepared!r}"
    yield shortened(f"holds the horizon: {who}{_application(holder.application)}", _WIDTH)
    yield from _state_lines(holder)
    # A prepared transaction can only be ended in its own database.
    is_elsewhere = holder.prepared is not None and holder.database != database
    place = f", in database {holder.database}" if is_elsewhere else ""
    yield f"end it{place}: {holder.remedy}"


def blocker_lines(session: LockSession) -> Iterator[str]:
    yield shortened(f"blocks others: pid {session.pid}{_application(session.application)}", _WIDTH)
    yield from _state_lines(session)
    yield f"end it: select pg_terminate_backend({session.pid})"


def waiter_lines(session: LockSession, *, holds_horizon: bool) -> Iterator[str]:
    names = [f"pid {pid}" if pid else "a prepared transaction" for pid in session.blocked_by]
    waited = f" {duration(session.waited_seconds)}" if session.waited_seconds else ""
    who = f"pid {session.pid}{_application(session.application)}"
    yield shortened(f"waits{waited} for {', '.join(names)}: {who}", _WIDTH)
    if holds_horizon:
        yield "holds the horizon while it waits"
    yield from _query_lines(session)


def _state_lines(session: Holder | LockSession) -> Iterator[str]:
    age = "" if session.age_seconds is None else f" for {duration(session.age_seconds)}"
    where = f"user {session.username}, database {session.database}"
    yield shortened(f"{where}, {session.state or 'state hidden'}{age}", _WIDTH)
    yield from _query_lines(session)


def _query_lines(session: Holder | LockSession) -> Iterator[str]:
    """For a hidden session the server shows '<insufficient privilege>'."""
    if session.query and session.state:
        yield shortened(f"query: {session.query}", _WIDTH)


def _application(name: str | None) -> str:
    return f", application {name}" if name else ""


def _examined(mp: Milepost, limits: Limits, *, repair: bool) -> Report:
    if repair:
        with mp.connect() as conn, db.acting(conn, "operate"):
            health.repair(conn, mp.schema)
    return mp.examine(limits)


def _print(report: Report) -> None:
    out = console()
    for check in report.checks:
        out.print(f"{check.state:8}", style=_STYLES[check.state], end="")
        out.print(f" {check.name:10} {check.detail}", soft_wrap=True)
    server = report.diagnosis.server
    if not server.sees_all_sessions:
        out.print("note    ", style="yellow", end="")
        text = "sessions of other users are hidden: grant pg_read_all_stats to"
        out.print(f" {text} {server.username}", soft_wrap=True)
    for lines in people(report.diagnosis):
        out.print()
        for line in lines:
            out.print(f"  {line}", soft_wrap=True)
    for problem in report.problems:
        what = shortened(problem.what, len(problem.what)).rstrip(".")
        out.print(f"\n{problem.area}: {what}.")
        # So that a command is not broken into two lines.
        out.print(f"To do: {problem.remedy}", soft_wrap=True)
