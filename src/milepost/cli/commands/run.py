"""`milepost run app:mp`: run an application's processors, pipelines and workers, in one process or
in several."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal

import psycopg
import typer

from milepost.app import Milepost
from milepost.cli import options
from milepost.cli.database import say_embedded
from milepost.cli.failures import stacks_printed
from milepost.cli.listen_address import listen_address
from milepost.cli.logs import LogFormat, failures_logged, log, set_up_logging
from milepost.cli.output import say
from milepost.cli.processes import Processes, stop_with_parent
from milepost.errors import AppNotFound, NoSparkSession
from milepost.observe import ProbeLimits
from milepost.pipeline.engine import SparkProcessor
from milepost.pipeline.pipeline import Pipeline
from milepost.pipeline.spark.failures import needs_session
from milepost.pipeline.spark.settings import project_table, spark_settings
from milepost.pipeline.spark.tracebacks import users_place
from milepost.queue import Scheduler
from milepost.runtime import is_server_away

LIMITS = ProbeLimits()


def command(
    application: options.Application,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="Only this processor, pipeline or worker; milepost.schedules for all schedules, "
            "archive for the archiver, retention for removing what is old. Repeatable.",
        ),
    ] = None,
    until: Annotated[
        Literal["stopped", "caught_up", "drained"], typer.Option(help="When to stop.")
    ] = "stopped",
    stop_seconds: Annotated[
        float, typer.Option(min=0, help="How long the current batch may take to finish.")
    ] = 30.0,
    fail_fast: Annotated[
        bool,
        typer.Option(
            "--fail-fast",
            help="End with the first member that fails. Without it, a member that fails is "
            "restarted after a growing pause, and the others go on.",
        ),
    ] = False,
    processes: Annotated[
        int,
        typer.Option(
            min=1,
            help="Run it in so many processes. One that dies is restarted after a growing pause. "
            "What runs on Spark runs in the first one only.",
        ),
    ] = 1,
    health: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Answer /livez (its loops turn) and /readyz (connected, and caught up within a "
            "limit) there over HTTP, without a login.",
        ),
    ] = None,
    ready_lag_seconds: Annotated[
        float,
        typer.Option(min=0, help="A processor or pipeline that is further behind is not ready."),
    ] = LIMITS.lag_seconds,
    live_seconds: Annotated[
        float,
        typer.Option(min=0, help="A loop that has not turned for this long is not alive."),
    ] = LIMITS.live_seconds,
    master: options.Master = None,
    spark_conf: options.SparkConf = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option(help="debug: a line per batch. info: a line per change of state."),
    ] = "info",
    log_format: Annotated[
        LogFormat,
        typer.Option(envvar="MILEPOST_LOG_FORMAT", help="json: each log line is a JSON object."),
    ] = "text",
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Show errors with their whole stacks, also those of Spark."),
    ] = False,
) -> None:
    """Run an application's processors, pipelines and workers until SIGTERM or Ctrl-C. Current
    batches and jobs are finished."""
    set_up_logging(log_level, log_format, has_stacks=verbose)
    stop_with_parent()
    is_json = log_format == "json"
    tell = log.info if is_json else say
    with failures_logged() if is_json else stacks_printed(verbose):
        mp = load(application, tell)
        spark = spark_settings(project_table(Path.cwd()), os.environ, master, spark_conf or ())
        spark = spark.with_stacks() if verbose else spark
        refuse_unrunnable(application, mp, only)
        address = None if health is None else listen_address(health)
        if processes > 1:
            refuse_probes_of_several(health)
            shared = [
                *("--until", until, "--stop-seconds", str(stop_seconds)),
                *("--log-level", log_level, "--log-format", log_format),
                *(["--fail-fast"] if fail_fast else []),
                *(["--verbose"] if verbose else []),
                *(["--master", master] if master else []),
                *(word for conf in spark_conf or () for word in ("--spark-conf", conf)),
            ]
            refuse_unreachable(mp, is_patient=until == "stopped")
            commands = child_commands(application, mp, only, processes, shared)
            children = Processes(
                commands, stop_seconds, is_restarted=until == "stopped", is_fail_fast=fail_fast
            )
            raise typer.Exit(children.run())
        mp.run(
            only or None,
            until,
            stop_seconds,
            fail_fast=fail_fast,
            spark=spark,
            health=address,
            probe_limits=ProbeLimits(ready_lag_seconds, live_seconds),
            on_start=lambda names: tell(f"running {', '.join(names)}"),
        )


def child_commands(
    application: str, mp: Milepost, only: list[str] | None, processes: int, shared: list[str]
) -> list[list[str]]:
    """The arguments of each process. A pipeline has one driver, so the first one runs all, and the
    others run what does not need Spark."""
    members = mp.members(only or None)
    others = [m.name for m in members if not isinstance(m, Pipeline | SparkProcessor)]
    if not others:
        raise typer.BadParameter(
            f"{processes} processes have nothing to share: all of {application} runs on Spark, "
            "with one driver each. Leave --processes out.",
            param_hint="--processes",
        )
    names = only if len(others) == len(members) else [n for n in others if n != Scheduler.name]
    first, rest = (
        ["run", application, *shared, *(word for name in chosen or () for word in ("--only", name))]
        for chosen in (only, names)
    )
    return [first, *[rest] * (processes - 1)]


def refuse_unreachable(mp: Milepost, *, is_patient: bool) -> None:
    """Report once what no process could do. They wait for a server that is away."""
    try:
        with mp.connect():
            pass
    except psycopg.Error as error:
        if not (is_patient and is_server_away(error)):
            raise


def refuse_probes_of_several(health: str | None) -> None:
    """One of them would answer for all, and the others could not have its port."""
    if health is not None:
        raise typer.BadParameter(
            "the probes are of one process. Run one process in each container or unit, or leave "
            "--processes or --health out.",
            param_hint="--health",
        )


def refuse_unrunnable(application: str, mp: Milepost, only: list[str] | None) -> None:
    """With an error that names what could be run."""
    if not mp.members():
        raise AppNotFound(
            f"{application} has no processors, pipelines, workers or schedules. Add one with "
            "@mp.processor(...), @mp.pipeline(...) or @mp.worker(...)."
        )
    mp.members(only or None)


def set_up_django(environ: Mapping[str, str]) -> None:
    """Where its settings are named, the application is part of a Django project: its models can be
    imported only then. In a command of `manage.py` that is done already, and harmless again."""
    if environ.get("DJANGO_SETTINGS_MODULE") and importlib.util.find_spec("django") is not None:
        importlib.import_module("django").setup()


def load(application: str, tell: Callable[[str], None] = say) -> Milepost:
    """The Milepost instance `module:name`; the current directory is importable."""
    module_name, _, name = application.partition(":")
    if not name or not all(part.isidentifier() for part in module_name.split(".")):
        raise AppNotFound(f"{application!r} is not of the form MODULE:NAME, such as app:mp.")
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    set_up_django(os.environ)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module exists, but something it imports does not
        raise AppNotFound(
            f"There is no module {module_name!r} in {directory} or among the installed packages."
        ) from None
    except (RuntimeError, AssertionError) as error:
        if not needs_session(error):
            raise
        raise NoSparkSession(module_name, users_place(error)) from error
    found = getattr(module, name, None)
    if not isinstance(found, Milepost):
        kind = "nothing" if found is None else f"a {type(found).__name__}"
        raise AppNotFound(f"{application} is {kind}, expected a Milepost instance.")
    if found.embedded_directory is not None:
        say_embedded(found.embedded_directory, tell)
    return found
