"""All commands by name. Only the requested one is imported: imports take most of the time of a
short command."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from milepost import __version__
from milepost.cli.failures import FailureGroup

# In the order in which the help lists them. `demo` is a separate program, in milepost_demo.
_COMMANDS = (
    "migrate", "append", "read", "run", "status", "doctor", "metrics", "ui", "rebase", "grant",
    "demo",
)  # fmt: skip
_GROUPS = (
    "processors", "queue", "channels", "schedules", "pipelines", "dead-letters", "retention",
    "archive", "embedded",
)  # fmt: skip


def app_for(words: Sequence[str]) -> typer.Typer:
    """With the command that the words name, or with all commands, to list or suggest them."""
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
            # Imported here: `--version` does not need what it imports.
            on_log = import_module("milepost.cli.on_log").on_log
            app.command(name)(on_log(_module(name).command))
        else:
            app.add_typer(_module(name).app, name=name)
    return app


def show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"milepost {__version__}")
        raise typer.Exit


def milepost(
    # FailureGroup reads it from the context.
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar="MILEPOST_DEBUG", help="Show errors with their traceback."),
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Durable message processing on PostgreSQL."""


def _module(name: str) -> Any:
    if name == "demo":
        return import_module("milepost_demo")
    return import_module(f"milepost.cli.commands.{name.replace('-', '_')}")
