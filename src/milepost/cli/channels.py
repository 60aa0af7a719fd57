"""`milepost channels`: how each channel is, and its limits."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from milepost import sql
from milepost.cli import options
from milepost.cli.database import open_log
from milepost.cli.output import console, duration, print_json
from milepost.queue import Policy, admin, channels, policies, set_channel

if TYPE_CHECKING:
    from milepost.queue.admin import ChannelStatus

app = typer.Typer(help="Channels: list, set, pause, resume.", invoke_without_command=True)
Name: TypeAlias = Annotated[str, typer.Argument(metavar="CHANNEL")]
Justify: TypeAlias = "Literal['left', 'right']"
_COLUMNS = ("channel", "ready", "scheduled", "running", "dead", "oldest due", "rate", "limits")


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
    """Every channel that has jobs or limits."""
    with open_log(url, schema).connect() as conn:
        found = admin.list_channels(conn, schema)
    if as_json:
        print_json([asdict(status) for status in found])
    else:
        print_table(found)


@app.command("set")
def set_(
    name: Name,
    max_concurrency: Annotated[
        int | None, typer.Option(min=1, help="Run at most so many at once, over all workers.")
    ] = None,
    release_seconds: Annotated[
        float | None, typer.Option(min=0, help="Begin with one at most every so many seconds.")
    ] = None,
    max_size: Annotated[
        int | None, typer.Option(min=1, help="Refuse puts beyond so many unfinished jobs.")
    ] = None,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """Set all limits of a channel, at once for all workers; what is left out is unlimited.

    A paused channel stays paused.
    """
    interval = timedelta(seconds=release_seconds) if release_seconds else None
    with open_log(url, schema).connect() as conn, conn.transaction():
        before = policies(conn, schema).get(name, Policy())
        policy = Policy(max_concurrency, interval, max_size, before.paused)
        set_channel(conn, name, policy, schema)
    typer.echo(f"{name}: {limits(max_concurrency, release_seconds, max_size) or 'unlimited'}")


@app.command()
def pause(name: Name, url: options.Url = None, schema: options.Schema = sql.DEFAULT_SCHEMA) -> None:
    """Begin with none of its jobs; those that run are ended."""
    with open_log(url, schema).connect() as conn:
        channels.pause(conn, name, schema=schema)
    typer.echo(f"{name}: paused")


@app.command()
def resume(
    name: Name, url: options.Url = None, schema: options.Schema = sql.DEFAULT_SCHEMA
) -> None:
    """Let a paused channel go on."""
    with open_log(url, schema).connect() as conn:
        channels.pause(conn, name, paused=False, schema=schema)
    typer.echo(f"{name}: resumed")


def limits(max_concurrency: int | None, release_seconds: float | None, max_size: int | None) -> str:
    parts = []
    if max_concurrency is not None:
        parts.append(f"{max_concurrency:,} at once")
    if release_seconds:
        parts.append(f"one in {release_seconds:g} s")
    if max_size is not None:
        parts.append(f"size {max_size:,}")
    return ", ".join(parts)


def print_table(found: list[ChannelStatus]) -> None:
    from rich.table import Table

    if not found:
        typer.echo("no channel has jobs or limits")
        return
    table = Table(box=None, pad_edge=False)
    for column in _COLUMNS:
        justify: Justify = "left" if column in ("channel", "limits") else "right"
        table.add_column(column, justify=justify, no_wrap=True)
    for status in found:
        table.add_row(*_cells(status))
    console().print(table)


def _cells(status: ChannelStatus) -> list[str]:
    due = status.oldest_due_seconds
    limited = limits(status.max_concurrency, status.release_seconds, status.max_size)
    paused = ["paused"] if status.is_paused else []
    return [
        status.name, f"{status.ready:,}", f"{status.scheduled:,}", f"{status.running:,}",
        f"{status.dead:,}", "-" if due is None else duration(due), f"{status.rate:,.0f}/s",
        ", ".join([*paused, limited] if limited else paused) or "-",
    ]  # fmt: skip
