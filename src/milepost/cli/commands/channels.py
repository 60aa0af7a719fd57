"""`milepost channels`: the state of each channel, and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, TypeAlias

import typer

from milepost.app import Milepost
from milepost.cli import options, output
from milepost.cli.on_log import command_of, new_group
from milepost.queue import (
    Policy,
    Rate,
    Upkeep,
    admin,
    pause_channel,
    policies,
    set_channel,
    set_upkeep,
    unset_channel,
)
from milepost.words import duration, stated

Name: TypeAlias = Annotated[
    str, typer.Argument(metavar="CHANNEL", help="A channel, or a family as 'tenant.*'.")
]
_RIGHT = ("ready", "scheduled", "waiting", "running", "dead", "oldest due", "rate")


def list_all(mp: Milepost, as_json: options.AsJson = False) -> None:
    """List all channels that have jobs or limits, and all families that have limits: first those
    with dead jobs, then with a job that is due for a minute, then at a limit."""
    with mp.connect() as conn:
        found = admin.list_channels(conn, mp.schema)
    output.print_listing(found, asdict, _print_channels, as_json=as_json)


app = new_group("Channels: list, set, unset, pause, resume, upkeep.", list_all, "list")


@command_of(app, "set")
def set_(
    mp: Milepost,
    name: Name,
    max_concurrency: Annotated[
        int | None, typer.Option(min=1, help="Run at most this many concurrently, in all workers.")
    ] = None,
    release_seconds: Annotated[
        float | None, typer.Option(min=0, help="Start at most one job per this many seconds.")
    ] = None,
    max_size: Annotated[
        int | None, typer.Option(min=1, help="Refuse puts above this many unfinished jobs.")
    ] = None,
    max_concurrency_total: Annotated[
        int | None,
        typer.Option(min=1, help="Run at most this many in all channels of the family together."),
    ] = None,
    rate: Annotated[
        int | None, typer.Option(min=1, help="Take at most this many jobs per --per-seconds.")
    ] = None,
    per_seconds: Annotated[float, typer.Option(help="The period of --rate.")] = 1.0,
    burst: Annotated[
        int, typer.Option(min=1, help="How many of --rate may start without a pause.")
    ] = 1,
) -> None:
    """Set all limits of a channel or a family, immediately and for all workers. A limit that is not
    given is removed.

    A paused channel stays paused.
    """
    with mp.connect() as conn, conn.transaction():
        before = policies(conn, mp.schema).get(name, Policy())
        policy = Policy(
            max_concurrency,
            release_seconds or None,
            max_size,
            before.paused,
            max_concurrency_total,
            None if rate is None else Rate(rate, per_seconds, burst),
        )
        set_channel(conn, name, policy, mp.schema)
        (status,) = admin.list_channels(conn, mp.schema, name=name)
    typer.echo(f"{name}: {limits(status) or 'unlimited'}")


@command_of(app)
def unset(mp: Milepost, name: Name) -> None:
    """Remove the policy of a channel or a family. Then that of its family applies, or none."""
    with mp.connect() as conn:
        was_set = unset_channel(conn, name, mp.schema)
    typer.echo(f"{name}: {'its policy was removed' if was_set else 'it had no policy'}")


@command_of(app)
def pause(mp: Milepost, name: Name) -> None:
    """Pause a channel or a family: no job is taken from it; running ones finish."""
    _set_paused(mp, name, is_paused=True)


@command_of(app)
def resume(mp: Milepost, name: Name) -> None:
    """Resume a paused channel or family."""
    _set_paused(mp, name, is_paused=False)


@command_of(app)
def upkeep(
    mp: Milepost,
    name: Name,
    keep_dead_days: Annotated[
        float | None, typer.Option(min=0, help="Delete dead jobs after this many days.")
    ] = None,
    ageing_seconds: Annotated[
        float | None,
        typer.Option(min=0, help="Move ready jobs one priority up each time they wait this long."),
    ] = None,
) -> None:
    """Set how a channel, or all channels of a prefix ('tenant.*', '*'), are kept up. What is not
    given is turned off. Limits stay."""
    keep_dead_for = timedelta(days=keep_dead_days) if keep_dead_days else None
    ageing = timedelta(seconds=ageing_seconds) if ageing_seconds else None
    with mp.connect() as conn:
        set_upkeep(conn, name, Upkeep(keep_dead_for, ageing), mp.schema)
    dead = f"for {keep_dead_days:g} days" if keep_dead_days else "for ever"
    ages = f"every {ageing_seconds:g} s" if ageing_seconds else "never"
    typer.echo(f"{name}: dead jobs are kept {dead}, priorities age {ages}")


def limits(status: admin.ChannelStatus) -> str:
    parts = [] if status.family is None else [f"{status.family}:"]
    if status.max_concurrency is not None:
        parts.append(f"{status.max_concurrency:,} concurrently,")
    if status.max_concurrency_total is not None:
        parts.append(f"{status.max_concurrency_total:,} in all its channels,")
    if status.release_seconds:
        parts.append(f"one in {status.release_seconds:g} s,")
    if status.rate_count is not None:
        parts.append(f"{status.rate_count:,} in {status.rate_seconds:g} s,")
        parts.append(f"burst {status.rate_burst:,},")
    if status.max_size is not None:
        parts.append(f"size {status.max_size:,},")
    return " ".join(parts).rstrip(",")


def _print_channels(found: Sequence[admin.ChannelStatus]) -> None:
    rows = [_cells(status) for status in found]
    output.print_table(rows, "no channel has jobs or limits", right=_RIGHT)


def _cells(status: admin.ChannelStatus) -> dict[str, str]:
    due = status.oldest_due_seconds
    limited = limits(status)
    paused = ["paused"] if status.is_paused else []
    overdue = f" ({stated(status, 'overdue')} due)" if status.overdue else ""
    return {
        "channel": status.name,
        "ready": stated(status, "ready"),
        "scheduled": stated(status, "scheduled") + overdue,
        "waiting": stated(status, "waiting"),
        "running": stated(status, "running"),
        "dead": stated(status, "dead"),
        "oldest due": "-" if due is None else duration(due),
        "rate": f"{status.rate:,.0f}/s",
        "limits": ", ".join([*paused, limited] if limited else paused) or "-",
    }


def _set_paused(mp: Milepost, name: str, *, is_paused: bool) -> None:
    with mp.connect() as conn:
        pause_channel(conn, name, paused=is_paused, schema=mp.schema)
    typer.echo(f"{name}: {'paused' if is_paused else 'resumed'}")
