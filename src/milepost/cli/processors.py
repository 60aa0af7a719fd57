"""`milepost processors`: where each stands, and what operators can do about it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from milepost import sql
from milepost.cli import options, segments
from milepost.cli.confirm import confirm
from milepost.cli.database import open_log
from milepost.cli.output import console, count, duration, fitted, print_json
from milepost.cli.read import parse_start
from milepost.cli.run import load
from milepost.errors import ResetNeedsApplication, UnknownProcessor
from milepost.processors import admin
from milepost.processors.reset import reset as restart
from milepost.processors.skip import skip as skip_message
from milepost.records import Position

if TYPE_CHECKING:
    from typing import Literal

    from milepost.processors.admin import ProcessorStatus
    from milepost.processors.definition import ResetHandler

app = typer.Typer(
    help="Processors: list, show, pause, resume, reset, skip; segments, split, merge, balance.",
    invoke_without_command=True,
)
_MODES = {
    "auto": "mode auto: its checkpoint moves with every batch, self-checkpointing handlers or not",
    "deferred": "mode deferred: its checkpoint moves when its handlers ask for it",
}
Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME")]
Justify: TypeAlias = "Literal['left', 'right']"
Version: TypeAlias = Annotated[
    int | None, typer.Option(help="Its newest version, unless one is given.")
]


for command in (segments.segments, segments.split, segments.merge, segments.balance):
    app.command()(command)


@app.callback()
def default(
    context: typer.Context,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Without a command: list."""
    if context.invoked_subcommand is None:
        list_all(url, schema, as_json)


@app.command("list")
def list_all(
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Every processor that has ever run on this log."""
    with open_log(url, schema).connect() as conn:
        found = admin.list_processors(conn, schema)
    if as_json:
        print_json([as_document(status) for status in found])
    else:
        print_table(found)


@app.command()
def show(
    name: Name,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Everything known about one processor."""
    with open_log(url, schema).connect() as conn:
        key = admin.find(conn, schema, name)
        found = [as_document(status) for status in admin.list_processors(conn, schema, name)]
    if as_json:
        print_json(found)
        return
    for document in found:
        typer.echo(f"{key.processor} version {document['version']}")
        for fact, value in document.items():
            typer.echo(f"  {fact:15} {'-' if value is None else value}")


@app.command()
def pause(
    name: Name,
    version: Version = None,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """Let it finish the batch in hand and wait; within two seconds."""
    _set_paused(name, version, url, schema, is_paused=True)


@app.command()
def resume(
    name: Name,
    version: Version = None,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """Let a paused processor go on."""
    _set_paused(name, version, url, schema, is_paused=False)


@app.command()
def reset(
    name: Name,
    to: Annotated[
        str, typer.Option("--to", metavar="START", help="beginning, end, a position or a time.")
    ],
    application: Annotated[
        str | None,
        typer.Option("--app", metavar="MODULE:NAME", help="Where its reset handlers are: app:mp."),
    ] = None,
    version: Version = None,
    yes: options.Yes = False,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """Put its checkpoint somewhere else, back as well; it goes on from there.

    Reset handlers of the application run in the same transaction. Without any, the effects that
    were made stay. What is delivered again says so: message.replaying.
    """
    start = parse_start(to, "--to")
    handlers = () if application is None else _reset_handlers(application, name)
    mp = open_log(url, schema)
    with mp.connect() as conn:
        key = admin.find(conn, schema, name, version)
        if application is None and admin.has_reset_handlers(conn, schema, key):
            raise ResetNeedsApplication(name)
        label = f"{key.processor} version {key.version}"
        confirm(f"move the checkpoint of {label} to {to}", yes=yes)
        position = restart(conn, mp.connect, schema, key, start, handlers)
    typer.echo(f"{label} goes on after {position}")


@app.command()
def skip(
    name: Name,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="POSITION", help="The message's, if it has segments."),
    ] = None,
    version: Version = None,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """Move past the message before which it stands, which goes to the dead letters."""
    position = None if at is None else Position.parse(at)
    with open_log(url, schema).connect() as conn:
        key = admin.find(conn, schema, name, version)
        message = skip_message(conn, schema, key, position)
    typer.echo(f"skipped {message.position} {message.type}: see milepost dead-letters list")


def _reset_handlers(application: str, name: str) -> tuple[ResetHandler, ...]:
    processors = load(application).processors
    if name not in processors:
        raise UnknownProcessor(name, sorted(processors))
    return processors[name].definition.reset_handlers


def as_document(status: ProcessorStatus) -> dict[str, Any]:
    document = asdict(status)
    del document["transaction_id"]
    position = status.checkpoint
    return document | {"position": None if position is None else str(position)}


def print_table(found: list[ProcessorStatus]) -> None:
    from rich.table import Table

    if not found:
        typer.echo("no processor has run on this log yet")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("name", "state", "position", "lag", "behind", "rate", "owner"):
        justify: Justify = "right" if column in ("lag", "rate") else "left"
        table.add_column(column, justify=justify, no_wrap=column != "owner")
    for status in found:
        table.add_row(*_cells(status))
    out = console()
    out.print(table)
    for status in found:
        if status.last_error is not None:
            out.print(fitted(f"{status.name}: {status.last_error}", out.width), style="red")
        if status.dead_letters:
            parked = f", {count(status.parked_keys, 'key')} parked" if status.parked_keys else ""
            out.print(f"{status.name}: {count(status.dead_letters, 'dead letter')}{parked}")
        if status.is_replaying:
            out.print(f"{status.name}: replaying what it had handled before its reset")
        if status.mode is not None:
            out.print(f"{status.name}: {_MODES[status.mode]}")


def _cells(status: ProcessorStatus) -> list[str]:
    lag = f"{status.lag_messages:,}" if status.is_lag_exact else f"{status.lag_messages:,}+"
    version = "" if status.version == 1 else f" v{status.version}"
    behind = duration(status.lag_seconds) if status.lag_messages else "-"
    checkpoint = str(status.checkpoint or "-").replace(":9223372036854775807", ":*")
    return [
        f"{status.name}{version}", status.state, checkpoint, lag, behind, f"{status.rate:,.0f}/s",
        fitted(status.owner or "-", 24),
    ]  # fmt: skip


def _set_paused(
    name: str, version: int | None, url: str | None, schema: str, *, is_paused: bool
) -> None:
    with open_log(url, schema).connect() as conn:
        key = admin.find(conn, schema, name, version)
        admin.set_paused(conn, schema, key, is_paused=is_paused)
    typer.echo(f"{key.processor} version {key.version}: {'paused' if is_paused else 'resumed'}")
