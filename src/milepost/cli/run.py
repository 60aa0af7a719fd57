"""`milepost run app:mp`: run an application's processors, pipelines and workers in one process."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from milepost.app import Milepost
from milepost.cli.database import say_embedded
from milepost.cli.logs import LogFormat, failures_logged, log, set_up_logging
from milepost.cli.output import say
from milepost.errors import AppNotFound
from milepost.pipeline.settings import project_table, spark_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.processors.group import Runnable


def command(
    application: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="Where the Milepost instance is: app:mp.")
    ],
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="This processor, pipeline or worker only. Repeatable."),
    ] = None,
    until: Annotated[
        Literal["stopped", "caught_up", "drained"], typer.Option(help="When to end by itself.")
    ] = "stopped",
    stop_seconds: Annotated[
        float, typer.Option(min=0, help="How long a batch in hand may take to end.")
    ] = 30.0,
    master: Annotated[
        str | None,
        typer.Option(
            envvar="MILEPOST_SPARK_MASTER",
            show_default="local[*]",
            help="Where Spark runs pipelines: local[4], spark://host:7077, k8s://..., yarn.",
        ),
    ] = None,
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(
            "--spark-conf",
            metavar="KEY=VALUE",
            help="A setting of Spark's. Repeatable; wins over MILEPOST_SPARK_CONF (key=value;...) "
            "and [tool.milepost.spark] of pyproject.toml.",
        ),
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option(help="debug shows a line a batch, info one at every change of state."),
    ] = "info",
    log_format: Annotated[
        LogFormat,
        typer.Option(envvar="MILEPOST_LOG_FORMAT", help="json: each line of the log is an object."),
    ] = "text",
) -> None:
    """Run an application's processors, pipelines and workers until SIGTERM or Ctrl-C; what is in
    hand is finished."""
    set_up_logging(log_level, log_format)
    is_json = log_format == "json"
    tell = log.info if is_json else say
    with failures_logged() if is_json else nullcontext():
        mp = load(application, tell)
        spark = spark_settings(project_table(Path.cwd()), os.environ, master, spark_conf or ())
        names = [member.name for member in runnable(application, mp, only)]
        with mp.connect():  # fails where there is no server, or no schema
            tell(f"running {', '.join(names)}")
        mp.run(only or None, until, stop_seconds, spark=spark)


def runnable(application: str, mp: Milepost, only: list[str] | None) -> list[Runnable]:
    """What is to be run, or an error that says what could be."""
    if not mp.members():
        raise AppNotFound(
            f"{application} has no processors, pipelines, workers or schedules. Make one with "
            "@mp.processor(...), @mp.pipeline(...) or @mp.worker(...)."
        )
    return mp.members(only or None)


def load(application: str, tell: Callable[[str], None] = say) -> Milepost:
    """The Milepost instance that `module:name` names, with the current directory importable."""
    module_name, _, name = application.partition(":")
    if not module_name or not name:
        raise AppNotFound(f"{application!r} is not MODULE:NAME, such as app:mp.")
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, but something it imports is not
        raise AppNotFound(
            f"There is no module {module_name!r} in {directory} or among the installed packages."
        ) from None
    found = getattr(module, name, None)
    if not isinstance(found, Milepost):
        kind = "nothing" if found is None else f"a {type(found).__name__}"
        raise AppNotFound(f"{application} is {kind}, expected a Milepost instance.")
    if found.embedded_directory is not None:
        say_embedded(found.embedded_directory, tell)
    return found
