"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        show_default=False,
        help="The database. Default: MILEPOST_URL (which other users do not see in the list of "
        "processes), else the PG* variables, else the embedded server, unless "
        "MILEPOST_EMBEDDED=off.",
    ),
]
Schema: TypeAlias = Annotated[
    str, typer.Option("--schema", envvar="MILEPOST_SCHEMA", help="The schema of the log.")
]
Directory: TypeAlias = Annotated[
    Path, typer.Option("--directory", help="The data directory of the embedded server.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON to stdout.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME")]
Version: TypeAlias = Annotated[int | None, typer.Option(help="Default: the newest version.")]
Application: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:NAME",
        envvar="MILEPOST_APP",
        help="Where the Milepost instance is: app:mp. Default: MILEPOST_APP.",
    ),
]
Master: TypeAlias = Annotated[
    str | None,
    typer.Option(
        envvar="MILEPOST_SPARK_MASTER",
        show_default="local[*]",
        help="Where Spark runs pipelines: local[4], spark://host:7077, k8s://..., yarn.",
    ),
]
SparkConf: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf",
        metavar="KEY=VALUE",
        help="A Spark setting. Repeatable. Overrides MILEPOST_SPARK_CONF (key=value;...) and "
        "[tool.milepost.spark] in pyproject.toml.",
    ),
]
