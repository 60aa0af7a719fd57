"""`milepost doctor`: how the log is, and who holds its horizon back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from milepost import sql
from milepost.cli import options
from milepost.cli.database import open_log
from milepost.cli.output import console, count, duration, print_json, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.log.diagnosis import Diagnosis, Holder, Problem

_STYLES = {"ok": "green", "problem": "bold red", "note": "yellow"}
_WIDTH = 76


def command(
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    warn_seconds: Annotated[
        float, typer.Option(min=0, help="Held back longer than this is a problem.")
    ] = 10.0,
    as_json: options.AsJson = False,
) -> None:
    """Show how the log is and who holds its horizon back. Exits with 1 if there is a problem."""
    diagnosis = open_log(url, schema).diagnose()
    problems = diagnosis.problems(warn_seconds)
    if as_json:
        print_json(as_document(diagnosis, problems))
    else:
        _print(diagnosis, problems)
    if problems:
        raise typer.Exit(1)


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


def _print(diagnosis: Diagnosis, problems: list[Problem]) -> None:
    out = console()
    bad = {problem.area for problem in problems}
    for area, text in fact_lines(diagnosis):
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
