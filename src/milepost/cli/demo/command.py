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
from milepost.pipeline import require_spark

# Beyond the writers' own time: to start the server and the writers, and to read to the end.
GRACE_SECONDS = 45.0
SPARK_SECONDS = 240.0  # five times a Spark driver is started; twice as long as on two slow cores


def command(
    url: options.Url = None,
    directory: options.Directory = DEFAULT_DIRECTORY,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="How long the writers write at least.")
    ] = 15.0,
    writers: Annotated[int, typer.Option(min=1, max=64, help="How many processes write.")] = 4,
    order: Annotated[
        Literal["append", "transaction"], typer.Option(help="The order of the log.")
    ] = "append",
    with_spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="With the pipelines on Spark.")
    ] = True,
    as_json: options.AsJson = False,
) -> None:
    """Let several processes place orders at random while a reader, a processor and two Spark
    pipelines follow; kill what follows, and compare. Exits with 0 only if nothing was lost, doubled
    or out of order."""
    if with_spark:
        require_spark()
    limit = seconds + GRACE_SECONDS + with_spark * SPARK_SECONDS
    with deadline(limit), demo_place(url, Path(directory), order) as place:
        with progress() as shown:
            outcome = run(place, writers, seconds, shown, with_spark=with_spark)
        if as_json:
            print_json(as_document(outcome))
        else:
            print_outcome(outcome)
    if not outcome.holds:
        raise typer.Exit(1)
