"""`milepost processors`: the state of each processor, and what operators can do with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from milepost.app import Milepost
from milepost.cli import options, output
from milepost.cli.commands import segments
from milepost.cli.commands.read import parse_start
from milepost.cli.commands.run import load
from milepost.cli.following import (
    as_document,
    print_error,
    print_versions,
    progress_cells,
    shown,
)
from milepost.cli.on_log import command_of, new_group
from milepost.errors import ResetNeedsApplication, UnknownProcessor
from milepost.processors import ResetHandler, admin
from milepost.processors.admin import ProcessorStatus
from milepost.processors.replay.reset import reset as restart
from milepost.processors.set_aside.skip import skip as skip_message
from milepost.records import Position
from milepost.words import count

_MODES = {
    "auto": "mode auto: its checkpoint moves with every batch, with or without self-checkpointing "
    "handlers",
    "deferred": "mode deferred: its checkpoint moves when its handlers ask for it",
}


def list_all(mp: Milepost, as_json: options.AsJson = False) -> None:
    """List all processors that have ever run on this log."""
    with mp.connect() as conn:
        found = admin.list_processors(conn, mp.schema)
    output.print_listing(found, as_document, print_processors, as_json=as_json)


app = new_group(
    "Processors: list, show, pause, resume, reset, skip, abandon; segments, split, merge, balance.",
    list_all,
    "list",
)
for command in (segments.segments, segments.split, segments.merge, segments.balance):
    command_of(app)(command)


@command_of(app)
def show(mp: Milepost, name: options.Name, as_json: options.AsJson = False) -> None:
    """Show everything known about one processor."""
    with mp.connect() as conn:
        admin.find(conn, mp.schema, name)  # raises if there is none
        found = admin.list_processors(conn, mp.schema, name)
    print_versions(name, found, as_json=as_json)


@command_of(app)
def pause(mp: Milepost, name: options.Name, version: options.Version = None) -> None:
    """Pause a processor. It finishes its current batch and then waits; within two seconds."""
    _set_paused(mp, name, version, is_paused=True)


@command_of(app)
def resume(mp: Milepost, name: options.Name, version: options.Version = None) -> None:
    """Resume a paused processor."""
    _set_paused(mp, name, version, is_paused=False)


@command_of(app)
def abandon(
    mp: Milepost, name: options.Name, version: options.Version = None, yes: options.Yes = False
) -> None:
    """Forget a processor that is not used any more, with its checkpoint and its dead letters. It
    no longer keeps messages in the log."""
    with mp.connect() as conn:
        key = admin.find(conn, mp.schema, name, version)
        what = f"forget processor {name} version {key.version}, its checkpoint and dead letters"
        output.confirm(what, yes=yes)
        admin.abandon(conn, mp.schema, key)
    typer.echo(f"{name}: abandoned")


@command_of(app)
def reset(
    mp: Milepost,
    name: options.Name,
    to: Annotated[
        str, typer.Option("--to", metavar="START", help="beginning, end, a position or a time.")
    ],
    application: Annotated[
        str | None,
        typer.Option("--app", metavar="MODULE:NAME", help="Where its reset handlers are: app:mp."),
    ] = None,
    version: options.Version = None,
    yes: options.Yes = False,
) -> None:
    """Move the checkpoint of a processor, forward or back; it continues from there.

    The reset handlers of the application run in the same transaction. Without reset handlers, the
    effects made so far stay. A message that is delivered again has message.replaying set.
    """
    start = parse_start(to, "--to")
    handlers = () if application is None else _reset_handlers(application, name)
    with mp.connect() as conn:
        key = admin.find(conn, mp.schema, name, version)
        if application is None and admin.has_reset_handlers(conn, mp.schema, key):
            raise ResetNeedsApplication(name)
        label = f"{key.processor} version {key.version}"
        output.confirm(f"move the checkpoint of {label} to {to}", yes=yes)
        position = restart(conn, mp.connect, mp.schema, key, start, handlers)
    typer.echo(f"{label} continues after {position}")


@command_of(app)
def skip(
    mp: Milepost,
    name: options.Name,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="POSITION", help="Of the message; needed with segments."),
    ] = None,
    version: options.Version = None,
) -> None:
    """Skip the next message of a processor. The message goes to the dead letters."""
    position = None if at is None else Position.parse(at)
    with mp.connect() as conn:
        key = admin.find(conn, mp.schema, name, version)
        message = skip_message(conn, mp.schema, key, position)
    typer.echo(f"skipped {message.position} {message.type}: see milepost dead-letters list")


def _reset_handlers(application: str, name: str) -> tuple[ResetHandler, ...]:
    processors = load(application).processors
    if name not in processors:
        raise UnknownProcessor(name, sorted(processors))
    return processors[name].definition.reset_handlers


def print_processors(found: Sequence[ProcessorStatus]) -> None:
    rows = [_cells(status) for status in found]
    empty = "no processor has run on this log yet"
    output.print_table(rows, empty, right=("lag", "rate"), wrapped="owner")
    for status in found:
        print_error(status.name, status)
        for remark in _remarks(status):
            output.console().print(f"{status.name}: {remark}")


def _remarks(status: ProcessorStatus) -> Iterator[str]:
    if status.dead_letters:
        parked = f", {count(status.parked_keys, 'key')} parked" if status.parked_keys else ""
        yield f"{count(status.dead_letters, 'dead letter')}{parked}"
    if status.is_replaying:
        yield "replaying what it had handled before its reset"
    if status.mode is not None:
        yield _MODES[status.mode]
    if status.mode == "deferred" and status.unhandled_messages is not None:
        waiting = count(status.unhandled_messages, "message")
        handled, durable = shown(status.handled_up_to), shown(status.checkpoint)
        yield f"handled up to {handled}, durable up to {durable}; {waiting} not handled yet"


def _cells(status: ProcessorStatus) -> dict[str, str]:
    version = "" if status.version == 1 else f" v{status.version}"
    return {
        "name": f"{status.name}{version}",
        "state": status.state,
        **progress_cells(status),
        "rate": f"{status.rate:,.0f}/s",
        "owner": output.fitted(status.owner or "-", 24),
    }


def _set_paused(mp: Milepost, name: str, version: int | None, *, is_paused: bool) -> None:
    with mp.connect() as conn:
        key = admin.find(conn, mp.schema, name, version)
        admin.set_paused(conn, mp.schema, key, is_paused=is_paused)
    typer.echo(f"{key.processor} version {key.version}: {'paused' if is_paused else 'resumed'}")
