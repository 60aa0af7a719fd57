"""`milepost migrate`: bring the database to the schema that this version needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from milepost.app import Milepost
from milepost.cli import options
from milepost.cli.output import print_json, say
from milepost.migrate import WAIT_SECONDS, Blocker, script


def command(
    mp: Milepost,
    order: Annotated[
        Literal["append", "transaction"] | None,
        typer.Option(help="The order of a new log; it cannot be changed later. [default: append]"),
    ] = None,
    sql_only: Annotated[
        bool, typer.Option("--sql", help="Print the SQL, and run nothing.")
    ] = False,
    with_key_index: Annotated[
        bool,
        typer.Option(
            "--with-key-index",
            help="Create the index for conditional appends and reads by key, if it is missing.",
        ),
    ] = False,
    with_id_index: Annotated[
        bool,
        typer.Option(
            "--with-id-index",
            help="Create the unique index of ids for appends with once=True, if it is missing.",
        ),
    ] = False,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for other users of the tables.", min=0)
    ] = WAIT_SECONDS,
    as_json: options.AsJson = False,
) -> None:
    """Bring the database to the schema that this version needs. Safe to repeat."""
    if sql_only:
        pending = mp.pending_migrations(order, key_index=with_key_index, id_index=with_id_index)
        typer.echo(script(pending), nl=False)
        return
    steps = mp.migrate(
        order,
        key_index=with_key_index,
        id_index=with_id_index,
        wait_seconds=wait,
        on_wait=say_who_is_waited_for,
    )
    applied = [step.name for step in steps]
    if as_json:
        print_json({"schema": mp.schema, "applied": applied})
        return
    for name in applied:
        typer.echo(f"applied {name}")
    if not applied:
        say(f"nothing to do: the schema {mp.schema!r} is up to date")


def say_who_is_waited_for(blockers: Sequence[Blocker]) -> None:
    for blocker in blockers:
        say(f"waiting for {blocker}; no other session waits for this migration")
