"""`milepost run app:mp`: run an application's processors, pipelines and workers in one process."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from milepost.app import Milepost
from milepost.cli.output import say
from milepost.errors import AppNotFound
from milepost.pipeline.settings import project_table, spark_settings


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
) -> None:
    """Run an application's processors, pipelines and workers until SIGTERM or Ctrl-C; what is in
    hand is finished."""
    logging.basicConfig(
        stream=sys.stderr,
        level=log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    mp = load(application)
    if not (members := mp.members()):
        raise AppNotFound(
            f"{application} has no processors, pipelines, workers or schedules. Make one with "
            "@mp.processor(...), @mp.pipeline(...) or @mp.worker(...)."
        )
    say(f"running {', '.join(only or [member.name for member in members])}")
    spark = spark_settings(project_table(Path.cwd()), os.environ, master, spark_conf or ())
    mp.run(only or None, until, stop_seconds, spark=spark)


def load(application: str) -> Milepost:
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
    return found
