"""Every command under its name. Only the one that is asked for is imported: most of what a short
command takes is Python importing things."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from milepost import __version__
from milepost.cli.failures import FailureGroup

# In the order in which the help lists them, with their modules.
_COMMANDS = {
    "migrate": "migrate",
    "append": "append",
    "read": "read",
    "run": "run",
    "status": "status",
    "doctor": "doctor",
    "rebase": "rebase",
    "grant": "grant",
    "demo": "demo",
}
_GROUPS = {
    "processors": "processors",
    "queue": "queue",
    "channels": "channels",
    "pipelines": "pipelines",
    "dead-letters": "dead_letters",
    "embedded": "embedded",
}


def app_for(words: Sequence[str]) -> typer.Typer:
    """For a command line: with the command that it names, or with all, to list or suggest them."""
    app = typer.Typer(
        cls=FailureGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # it may show local variables, and with them a URL
        help="Durable message processing on PostgreSQL.",
    )
    app.callback()(milepost)
    first = next((word for word in words if not word.startswith("-")), "")
    known = [] if words[:1] == ["--version"] else [*_COMMANDS, *_GROUPS]
    for name in [first] if first in known else known:
        if name in _COMMANDS:
            app.command(name)(_module(_COMMANDS[name]).command)
        else:
            app.add_typer(_module(_GROUPS[name]).app, name=name)
    return app


def show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"milepost {__version__}")
        raise typer.Exit


def milepost(
    # Read by FailureGroup, from the context.
    debug: Annotated[
        bool, typer.Option("--debug", envvar="MILEPOST_DEBUG", help="Show errors in full.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=show_version, is_eager=True, help="Show the version, and exit."
        ),
    ] = False,
) -> None:
    """Durable message processing on PostgreSQL."""


def _module(name: str) -> Any:
    return import_module(f"milepost.cli.{name}")
