"""`milepost embedded`: the private PostgreSQL server of a directory."""

from __future__ import annotations

from shlex import quote

import typer

from milepost.app import DEFAULT_DIRECTORY
from milepost.cli import options
from milepost.cli.output import say
from milepost.embedded import EmbeddedServer
from milepost.errors import EmbeddedError

app = typer.Typer(no_args_is_help=True, help="The embedded PostgreSQL of a directory.")


@app.command()
def start(directory: options.Directory = DEFAULT_DIRECTORY) -> None:
    """Start the server if it is not running, and print its URL."""
    typer.echo(EmbeddedServer(directory).start())


@app.command()
def stop(directory: options.Directory = DEFAULT_DIRECTORY) -> None:
    """Shut the server down cleanly, if it is running."""
    was_running = EmbeddedServer(directory).stop()
    say("stopped" if was_running else f"the embedded server in {directory} was not running")


@app.command()
def url(directory: options.Directory = DEFAULT_DIRECTORY) -> None:
    """Print the URL of the running server, without starting it."""
    found = EmbeddedServer(directory).url()
    if found is None:
        option = "" if directory == DEFAULT_DIRECTORY else f" --directory {quote(str(directory))}"
        raise EmbeddedError(
            f"the embedded server in {directory} is not running. "
            f"Run: milepost embedded start{option}"
        )
    typer.echo(found)
