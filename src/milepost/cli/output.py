"""What commands print: results on stdout, remarks on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import typer

if TYPE_CHECKING:
    from rich.console import Console


def say(remark: str) -> None:
    """To whoever watches, not to what reads our output."""
    typer.echo(remark, err=True)


def print_json(value: Any) -> None:
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def console(*, stderr: bool = False) -> Console:
    # Loading rich takes a tenth of a second, which most commands need not spend.
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False)


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Rounded to what matters: 0.4 s, 34 s, 5 min, 3 h, 2 d."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    for size, unit, up_to in ((1, "s", 120), (60, "min", 7200), (3600, "h", 172800)):
        if seconds < up_to:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def shortened(text: str, width: int) -> str:
    """On one line, and without what a terminal would obey: others chose this text."""
    line = "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(line.split())
    return line if len(line) <= width else line[: width - 1] + "…"
