"""Every command under its name."""

from __future__ import annotations

from typing import Annotated

import typer

from milepost.cli import (
    append,
    channels,
    dead_letters,
    demo,
    doctor,
    embedded,
    migrate,
    pipelines,
    processors,
    queue,
    read,
    rebase,
    run,
    status,
)
from milepost.cli.failures import FailureGroup

app = typer.Typer(
    cls=FailureGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # it may show local variables, and with them a URL
    help="Durable message processing on PostgreSQL.",
)
app.command("migrate")(migrate.command)
app.command("append")(append.command)
app.command("read")(read.command)
app.command("run")(run.command)
app.command("status")(status.command)
app.command("doctor")(doctor.command)
app.command("rebase")(rebase.command)
app.command("demo")(demo.command)
app.add_typer(processors.app, name="processors")
app.add_typer(queue.app, name="queue")
app.add_typer(channels.app, name="channels")
app.add_typer(pipelines.app, name="pipelines")
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(embedded.app, name="embedded")


@app.callback()
def milepost(
    # Read by FailureGroup, from the context.
    debug: Annotated[
        bool, typer.Option("--debug", envvar="MILEPOST_DEBUG", help="Show errors in full.")
    ] = False,
) -> None:
    """Durable message processing on PostgreSQL."""
