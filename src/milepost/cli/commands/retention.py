"""`milepost retention`: what is kept in the log, what keeps messages from being removed, and
removing them."""

from __future__ import annotations

import re
from datetime import timedelta
from shlex import quote
from typing import Annotated, Any

import typer

from milepost.app import Milepost
from milepost.archive import (
    SHARE,
    Archiver,
    Gate,
    Policy,
    RetentionState,
    remove_old,
    retention_state,
    set_policy,
    unset_policy,
)
from milepost.cli import options, output
from milepost.cli.on_log import command_of, new_group
from milepost.words import count, duration

_UNITS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"(\d+)\s*(s|min|h|d|w)")


def show(mp: Milepost, as_json: options.AsJson = False) -> None:
    """Show the policy, and which consumers keep messages that it would remove."""
    with mp.connect() as conn:
        state = retention_state(conn, mp.schema)
    if as_json:
        output.print_json(as_document(state))
    else:
        _print_state(state)


app = new_group("Retention: show, set, unset, run.", show, "show")


@command_of(app, "set")
def set_(
    mp: Milepost,
    keep: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Keep what is younger than this: 90min, 12h, 30d, 4w."),
    ] = None,
    keep_messages: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Keep the newest N messages.")
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Write messages to Parquet files here before they are removed: a directory, or an "
            "address as s3://bucket/prefix. Credentials come from the environment.",
        ),
    ] = None,
    archive_after: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Archive what is older than this, also while it is kept. Default: archive what "
            "may be removed; everything, if nothing may.",
        ),
    ] = None,
    no_archive: Annotated[
        bool, typer.Option("--no-archive", help="What is removed is gone for ever.")
    ] = False,
) -> None:
    """Set what is kept, and where the rest goes. It is removed by `milepost run`, or by `milepost
    retention run`."""
    if archive is not None and no_archive:
        raise typer.BadParameter("Give --archive or --no-archive, not both.")
    if keep is None and keep_messages is None and archive is None:
        raise typer.BadParameter("Give --keep, --keep-messages, or both; or --archive alone.")
    if archive is None and not no_archive:
        raise typer.BadParameter(
            "Removed messages are gone for ever. Add --archive PLACE to keep them in files, or "
            "--no-archive if that is what you want."
        )
    if archive is None and archive_after is not None:
        raise typer.BadParameter("--archive-after needs --archive.")
    policy = Policy(_time(keep), keep_messages, archive, _time(archive_after))
    with mp.connect() as conn:
        policy = set_policy(conn, policy, mp.schema)
    typer.echo(sentence(policy))


@command_of(app)
def unset(mp: Milepost) -> None:
    """Remove the policy: everything is kept from now on."""
    with mp.connect() as conn:
        unset_policy(conn, mp.schema)
    typer.echo(sentence(None))


@command_of(app)
def run(
    mp: Milepost,
    fast: Annotated[
        bool,
        typer.Option("--fast", help="As fast as possible, which slows others down meanwhile."),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Remove what the policy does not keep and every processor and pipeline has passed."""
    with mp.connect() as conn:
        removal = remove_old(conn, mp.schema, share=1 if fast else SHARE)
        state = retention_state(conn, mp.schema)
    document = {"removed": removal.number} | as_document(state)
    text = f"removed {count(removal.number, 'message')}, up to {removal.removed}"
    output.print_result(document, text, as_json=as_json)
    if not as_json:
        _print_blocking(state)


def _time(text: str | None) -> timedelta | None:
    return None if text is None else parse_duration(text)


def parse_duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a time: expected 90min, 12h, 30d or 4w.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def sentence(policy: Policy | None) -> str:
    if policy is None:
        return "everything is kept"
    parts = []
    if policy.keep is not None:
        parts.append(f"messages of the last {duration(policy.keep.total_seconds())}")
    if policy.keep_messages is not None:
        parts.append(f"the newest {count(policy.keep_messages, 'message')}")
    kept = f"kept: {' and '.join(parts)}" if parts else "everything is kept"
    return kept if policy.archive is None else f"{kept}; archived{_when(policy)}: {policy.archive}"


def _when(policy: Policy) -> str:
    if policy.archive_after is not None:
        return f" after {duration(policy.archive_after.total_seconds())}"
    return " before it is removed" if policy.removes else ""


def as_document(state: RetentionState) -> dict[str, Any]:
    policy = state.policy
    return {
        "keep_seconds": _seconds(None if policy is None else policy.keep),
        "keep_messages": None if policy is None else policy.keep_messages,
        "archive": None if policy is None else policy.archive,
        "archive_after_seconds": _seconds(None if policy is None else policy.archive_after),
        "limit": None if state.limit is None else str(state.limit),
        "removed_up_to": str(state.removed),
        "gates": [
            {
                "consumer": gate.consumer,
                "version": gate.version,
                "segment": gate.segment,
                "position": str(gate.position),
                "is_blocking": gate in state.blocking,
            }
            for gate in state.gates
        ],
    }


def _seconds(time: timedelta | None) -> float | None:
    return None if time is None else time.total_seconds()


def _print_state(state: RetentionState) -> None:
    typer.echo(sentence(state.policy))
    typer.echo(f"removed up to {state.removed}")
    if state.limit is not None:
        typer.echo(f"the policy allows to remove up to {state.limit}")
    rows = [_row(gate, state) for gate in state.gates]
    output.print_table(rows, "no consumer has a checkpoint", right=("version", "segment"))
    _print_blocking(state)


def _row(gate: Gate, state: RetentionState) -> dict[str, str]:
    return {
        "consumer": gate.consumer,
        "version": str(gate.version),
        "segment": str(gate.segment),
        "position": str(gate.position),
        "": "keeps messages" if gate in state.blocking else "",
    }


def _print_blocking(state: RetentionState) -> None:
    """Each is behind because it is slow, stopped, or not used any more."""
    for name in dict.fromkeys(gate.consumer for gate in state.blocking):
        if name == Archiver.name:
            output.say(
                "The archive does not have what the policy would remove yet: milepost archive run"
            )
            continue
        output.say(
            f"{name} has not passed what the policy would remove. Run it; or, if it is not used "
            f"any more: milepost processors abandon {quote(name)} "
            "(a pipeline: milepost pipelines drop)."
        )
