"""`milepost doctor`: whether everything is well, who is in the way, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import psycopg
import typer

from milepost import db, sql
from milepost.cli import options
from milepost.cli.database import open_log
from milepost.cli.failures import Failed, in_one_line
from milepost.cli.output import console, duration, print_json, shortened
from milepost.errors import MilepostError
from milepost.health import Limits
from milepost.queue import invariants

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.app import Milepost
    from milepost.health import Check, Report
    from milepost.log.diagnosis import Diagnosis, Holder, LockSession, Problem

PROBLEM, COULD_NOT_LOOK = 1, 2
_STYLES = {"ok": "green", "problem": "bold red", "unknown": "bold yellow"}
_WIDTH = 76
_DEFAULT = Limits()


class CouldNotLook(Failed):
    """Nothing is known: neither that all is well nor that something is not."""

    exit_code = COULD_NOT_LOOK


def command(
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    warn_seconds: Annotated[
        float, typer.Option(min=0, help="The horizon is held, or a lock waited for, this long.")
    ] = _DEFAULT.warn_seconds,
    lag_seconds: Annotated[
        float, typer.Option(min=0, help="A processor or pipeline is this far behind.")
    ] = _DEFAULT.lag_seconds,
    silent_seconds: Annotated[
        float, typer.Option(min=0, help="One that runs has not reported for this long.")
    ] = _DEFAULT.silent_seconds,
    claim_seconds: Annotated[
        float,
        typer.Option(min=0, help="Nobody claims a segment for this long, while instances run."),
    ] = _DEFAULT.claim_seconds,
    late_seconds: Annotated[
        float, typer.Option(min=0, help="Nobody looked after jobs for this long.")
    ] = _DEFAULT.late_seconds,
    due_seconds: Annotated[
        float, typer.Option(min=0, help="A job is due, and not taken, for this long.")
    ] = _DEFAULT.due_seconds,
    max_dead_jobs: Annotated[
        int, typer.Option(min=0, help="More jobs than this are dead.")
    ] = _DEFAULT.dead_jobs,
    schedule_seconds: Annotated[
        float, typer.Option(min=0, help="A schedule is overdue by this long.")
    ] = _DEFAULT.schedule_seconds,
    sequence_percent: Annotated[
        float, typer.Option(min=0, help="So much of a sequence, or of transaction ids, is used.")
    ] = _DEFAULT.sequence_percent,
    max_dead_rows: Annotated[
        int, typer.Option(min=0, help="A table has more rows than this to vacuum.")
    ] = _DEFAULT.dead_rows,
    max_disk_gb: Annotated[
        float, typer.Option(min=0, help="The schema takes more disk than this.")
    ] = _DEFAULT.disk_gb,
    look_seconds: Annotated[
        float, typer.Option(min=0.001, help="How long each look may take, before it is unknown.")
    ] = _DEFAULT.look_seconds,
    ignored: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore", metavar="NAME", help="Not this processor, pipeline or channel. Repeatable."
        ),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="First repair what can be repaired in the queue.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Check the log, processors, pipelines, the queue and the disk; say who blocks whom, and what
    to do.

    Exits with 0 if all is well, with 1 if there is a problem or something could not be seen, and
    with 2 if nothing could be looked at: no server, no schema, no right to.
    """
    limits = Limits(
        warn_seconds=warn_seconds,
        lag_seconds=lag_seconds,
        silent_seconds=silent_seconds,
        claim_seconds=claim_seconds,
        late_seconds=late_seconds,
        due_seconds=due_seconds,
        dead_jobs=max_dead_jobs,
        schedule_seconds=schedule_seconds,
        sequence_percent=sequence_percent,
        dead_rows=max_dead_rows,
        disk_gb=max_disk_gb,
        look_seconds=look_seconds,
        ignored=frozenset(ignored or ()),
    )
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
    """Who is in the way, each with the command that ends it; then who waits, and for whom."""
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
    # A prepared transaction can be ended in its own database alone.
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
        yield "holds the horizon meanwhile"
    yield from _query_lines(session)


def _state_lines(session: Holder | LockSession) -> Iterator[str]:
    age = "" if session.age_seconds is None else f" for {duration(session.age_seconds)}"
    where = f"user {session.username}, database {session.database}"
    yield shortened(f"{where}, {session.state or 'state hidden'}{age}", _WIDTH)
    yield from _query_lines(session)


def _query_lines(session: Holder | LockSession) -> Iterator[str]:
    """Of a session that is hidden, the server says '<insufficient privilege>'."""
    if session.query and session.state:
        yield shortened(f"query: {session.query}", _WIDTH)


def _application(name: str | None) -> str:
    return f", application {name}" if name else ""


def _examined(mp: Milepost, limits: Limits, *, repair: bool) -> Report:
    if repair:
        with mp.connect() as conn, db.acting(conn, "operate"):
            invariants.repair(conn, mp.schema)
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
        out.print(f"To do: {problem.remedy}", soft_wrap=True)  # a command is not cut in two
