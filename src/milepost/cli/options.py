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
        help="The database; else MILEPOST_URL (which other users do not see in the list of "
        "processes), else the PG* variables, else the embedded server, unless "
        "MILEPOST_EMBEDDED=off.",
    ),
]
Schema: TypeAlias = Annotated[
    str, typer.Option("--schema", envvar="MILEPOST_SCHEMA", help="The schema of the log.")
]
Directory: TypeAlias = Annotated[
    Path, typer.Option("--directory", help="Where the embedded server keeps its data.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="As JSON, on stdout.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", help="Do it without being asked.")]
