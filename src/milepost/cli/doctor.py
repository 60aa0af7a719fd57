"""`milepost doctor`: how the log and the queue are, and who holds the horizon back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from milepost import sql
from milepost.cli import options
from milepost.cli.database import open_log
from milepost.cli.output import console, count, duration, print_json, shortened
from milepost.log.diagnosis import Problem
from milepost.queue import admin, invariants

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.app import Milepost
    from milepost.log.diagnosis import Diagnosis, Holder
    from milepost.queue.admin import QueueStatus
    from milepost.queue.invariants import Fault

_STYLES = {"ok": "green", "problem": "bold red", "note": "yellow"}
_WIDTH = 76


def command(
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    warn_seconds: Annotated[
        float, typer.Option(min=0, help="Held back longer than this is a problem.")
    ] = 10.0,
    late_seconds: Annotated[
        float, typer.Option(min=0, help="Jobs that nobody looked after for longer are a problem.")
    ] = invariants.LATE_SECONDS,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend first what can be mended in the queue.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show how the log and the queue are, and who holds the horizon back. Exits with 1 if there
    is a problem."""
    mp = open_log(url, schema)
    diagnosis = mp.diagnose()
    problems = diagnosis.problems(warn_seconds)
    queue = None if diagnosis.contents is None else _queue(mp, late_seconds, repair=repair)
    if queue is not None:
        problems += [problem_of(fault) for fault in queue.faults]
    if as_json:
        print_json(as_document(diagnosis, problems, queue))
    else:
        _print(diagnosis, problems, queue)
    if problems:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class Queue:
    """How the queue is, and what is wrong with it."""

    status: QueueStatus
    faults: list[Fault]

    def line(self) -> str:
        status = self.status
        waiting = count(status.ready + status.scheduled, "job")
        return f"{waiting} waiting, {status.running:,} running, {status.dead:,} dead"


def problem_of(fault: Fault) -> Problem:
    return Problem("queue", fault.what[0].upper() + fault.what[1:], "milepost doctor --repair")


def as_document(
    diagnosis: Diagnosis, problems: list[Problem], queue: Queue | None = None
) -> dict[str, Any]:
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
        "queue": queue and asdict(queue.status),
        "queue_faults": queue and [asdict(fault) for fault in queue.faults],
    }


def fact_lines(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """What is known, each with the area it belongs to."""
    server = diagnosis.server
    standby = ", a standby" if server.is_standby else ""
    yield "server", f"PostgreSQL {server.version}, database {server.database}{standby}"
    yield "schema", _schema(diagnosis)
    if diagnosis.contents is None:
        return
    yield "log", _log(diagnosis)
    if diagnosis.horizon is not None:
        yield "horizon", _horizon(diagnosis)
    yield "wake-up", f"notifications are {'on' if server.is_notifying else 'off: readers poll'}"


def holder_lines(holder: Holder, database: str) -> Iterator[str]:
    who = f"pid {holder.pid}" if holder.prepared is None else f"prepared {holder.prepared!r}"
    application = f", application {holder.application}" if holder.application else ""
    yield shortened(who + application, _WIDTH)
    age = "" if holder.age_seconds is None else f" for {duration(holder.age_seconds)}"
    where = f"user {holder.username}, database {holder.database}"
    yield shortened(f"{where}, {holder.state or 'state hidden'}{age}", _WIDTH)
    if holder.query:
        yield shortened(f"query: {holder.query}", _WIDTH)
    # A prepared transaction can be ended in its own database alone.
    is_elsewhere = holder.prepared is not None and holder.database != database
    place = f", in database {holder.database}" if is_elsewhere else ""
    yield f"end it{place}: {holder.remedy}"


def _queue(mp: Milepost, late_seconds: float, *, repair: bool) -> Queue:
    with mp.connect() as conn:
        if repair:
            invariants.repair(conn, mp.schema)
        faults = invariants.check(conn, late_seconds, mp.schema)
        return Queue(admin.summary(conn, mp.schema), faults)


def _schema(diagnosis: Diagnosis) -> str:
    if diagnosis.migration is None:
        return f"{diagnosis.schema} is not there"
    order = f", {diagnosis.contents.order} order" if diagnosis.contents else ""
    return f"{diagnosis.schema} at migration {diagnosis.migration}{order}"


def _log(diagnosis: Diagnosis) -> str:
    contents = diagnosis.contents
    if contents is None or contents.newest is None or contents.newest_age_seconds is None:
        return "no messages"
    about = "" if contents.is_exact else "about "
    age = duration(contents.newest_age_seconds)
    messages = count(contents.messages, "message")
    return f"{about}{messages}, the newest {contents.newest}, recorded {age} ago"


def _horizon(diagnosis: Diagnosis) -> str:
    position = diagnosis.horizon and diagnosis.horizon.position
    if not diagnosis.holders:
        return f"{position}, not held"
    age = "" if diagnosis.held_seconds is None else f" for {duration(diagnosis.held_seconds)}"
    return f"{position}, held{age} by {count(len(diagnosis.holders), 'transaction')}"


def _print(diagnosis: Diagnosis, problems: list[Problem], queue: Queue | None) -> None:
    out = console()
    bad = {problem.area for problem in problems}
    queue_lines = [] if queue is None else [("queue", queue.line())]
    for area, text in [*fact_lines(diagnosis), *queue_lines]:
        status = "problem" if area in bad else "ok"
        out.print(f"{status:8}", style=_STYLES[status], end="")
        out.print(f" {area:8} {text}", soft_wrap=True)
    if not diagnosis.server.sees_all_sessions:
        out.print("note    ", style=_STYLES["note"], end="")
        user = diagnosis.server.username
        out.print(
            f" sessions of other users are hidden: grant pg_read_all_stats to {user}",
            soft_wrap=True,
        )
    for holder in diagnosis.holders:
        out.print()
        for line in holder_lines(holder, diagnosis.server.database):
            out.print(f"  {line}", soft_wrap=True)
    for problem in problems:
        out.print(f"\n{problem.what}.\nTo do: {problem.remedy}")
