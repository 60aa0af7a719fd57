"""The command: parse, run within a time limit, show the results."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from shutil import which
from types import FrameType
from typing import Annotated, Literal

import typer

from milepost.app import DEFAULT_DIRECTORY
from milepost.cli import options
from milepost.cli.output import print_json, say
from milepost.errors import MilepostError
from milepost.pipeline import require_spark
from milepost_demo.display import print_outcome, progress
from milepost_demo.place import Place, demo_place
from milepost_demo.run import run

PROGRAM = "milepost"
# In addition to the time of the writers: to start the server and the writers, and to read to the
# end.
GRACE_SECONDS = 45.0
# Five starts of a Spark driver take 2 minutes on two quiet cores, and much longer on busy ones. The
# limit is for a demo that hangs.
SPARK_SECONDS = 900.0


class DemoTimedOut(MilepostError):
    """The demo did not end in time."""


def command(
    url: options.Url = None,
    directory: options.Directory = DEFAULT_DIRECTORY,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="The minimal time that the writers write.")
    ] = 15.0,
    writers: Annotated[
        int, typer.Option(min=1, max=64, help="The number of writer processes.")
    ] = 4,
    order: Annotated[
        Literal["append", "transaction"], typer.Option(help="The order of the log.")
    ] = "append",
    with_spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="With the pipelines on Spark.")
    ] = True,
    with_ui: Annotated[
        bool, typer.Option("--ui", help="Show the dashboard in the browser meanwhile.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Run several processes that place random orders while a reader, a processor and two Spark
    pipelines follow; kill the followers, and compare the results. Exits with 0 only if nothing was
    lost, doubled or out of order."""
    if with_spark:
        require_spark()
    limit = seconds + GRACE_SECONDS + with_spark * SPARK_SECONDS
    with deadline(limit), demo_place(url, directory, order) as place:
        with progress() as shown, _dashboard(place, shown.tell, is_wanted=with_ui):
            outcome = run(place, writers, seconds, shown, with_spark=with_spark)
        if as_json:
            print_json({"ok": outcome.failure is None, **asdict(outcome)})
        else:
            print_outcome(outcome)
            say(f"look at it in the browser: {_program()} ui --schema {place.mp.schema}")
    if outcome.failure is not None:
        raise typer.Exit(1)


def _program() -> str:
    """As it can be typed: after `make demo`, it is not on the PATH."""
    installed = Path(sys.executable).with_name(PROGRAM)
    return PROGRAM if which(PROGRAM) or not installed.exists() else os.path.relpath(installed)


def _dashboard(
    place: Place, tell: Callable[[str], None], *, is_wanted: bool
) -> AbstractContextManager[None]:
    if not is_wanted:
        return nullcontext()
    from milepost_demo.dashboard import served_dashboard  # an extra

    return served_dashboard(place, tell)


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raises in the main thread when the time is over, also inside a query. The context managers
    then end what was started."""

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise DemoTimedOut(f"the demo did not end within {seconds:.0f} s: giving up.")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
