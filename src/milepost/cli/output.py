"""What commands print: results on stdout, remarks on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import orjson
import typer

from milepost.words import count, duration

if TYPE_CHECKING:
    from rich.console import Console


__all__ = ["console", "count", "duration", "fitted", "print_json", "say", "shortened"]
# What reads a file or a pipe wants every row on one line, however long.
_UNLIMITED = 100_000


def say(remark: str) -> None:
    """To whoever watches, not to what reads our output."""
    typer.echo(remark, err=True)


def print_json(value: Any) -> None:
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def console(*, stderr: bool = False) -> Console:
    # Loading rich takes a tenth of a second, which most commands need not spend.
    from rich.console import Console

    out = Console(stderr=stderr, highlight=False, markup=False)
    if not out.is_terminal:
        out.width = _UNLIMITED
    return out


def shortened(text: str, width: int) -> str:
    """On one line, and without what a terminal would obey: others chose this text."""
    line = "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(line.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def fitted(text: str, width: int) -> str:
    """Shortened on a terminal; in a file or a pipe on one line, and whole."""
    return shortened(text, width if sys.stdout.isatty() else len(text))
