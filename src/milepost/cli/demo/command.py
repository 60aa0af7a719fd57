"""Parse, run, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from milepost.app import DEFAULT_DIRECTORY
from milepost.cli import options
from milepost.cli.demo.deadline import deadline
from milepost.cli.demo.display import as_document, print_outcome, progress
from milepost.cli.demo.place import demo_place
from milepost.cli.demo.run import run
from milepost.cli.output import print_json

# Beyond the writers' own time: to start the server and the writers, and to read to the end.
GRACE_SECONDS = 45.0


def command(
    url: options.Url = None,
    directory: options.Directory = DEFAULT_DIRECTORY,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long the writers write.")] = 15.0,
    writers: Annotated[int, typer.Option(min=1, max=64, help="How many processes write.")] = 6,
    order: Annotated[
        Literal["append", "transaction"], typer.Option(help="The order of the log.")
    ] = "append",
    as_json: options.AsJson = False,
) -> None:
    """Let several processes append at random while a reader follows, and count what it got.
    Exits with 0 only if nothing was lost, doubled or out of order."""
    with deadline(seconds + GRACE_SECONDS), demo_place(url, Path(directory), order) as place:
        with progress() as show:
            outcome = run(place, writers, seconds, show)
        if as_json:
            print_json(as_document(outcome))
        else:
            print_outcome(outcome)
    if not outcome.holds:
        raise typer.Exit(1)
