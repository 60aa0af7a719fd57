"""What commands print and ask: results on stdout, remarks and questions on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
import typer

from milepost.errors import NotConfirmed

if TYPE_CHECKING:
    from rich.console import Console

# A program that reads a file or a pipe expects every row on one line, however long.
_UNLIMITED = 100_000
T = TypeVar("T")


def say(remark: str) -> None:
    """For the person at the terminal, not for programs that read our output."""
    typer.echo(remark, err=True)


def confirm(what: str, *, yes: bool) -> None:
    """Returns if the user confirms `This will {what}`. Without a terminal --yes is required: a
    script must neither wait for an answer nor continue without one."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise NotConfirmed(what)
    if not typer.confirm(f"This will {what}. Continue?", err=True):
        say("nothing was changed")
        raise typer.Exit(1)


def print_json(value: Any) -> None:
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def print_result(document: Any, sentence: object, *, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        typer.echo(sentence)


def print_listing(
    found: list[T], document: Callable[[T], Any], show: Callable[[list[T]], None], *, as_json: bool
) -> None:
    if as_json:
        print_json([document(each) for each in found])
    else:
        show(found)


def print_facts(document: Mapping[str, Any], indent: str = "", max_width: int = 100_000) -> None:
    """One fact per line; a value is cut to `max_width` on a terminal."""
    width = max(map(len, document))
    for fact, value in document.items():
        text = "-" if value is None else str(value)
        typer.echo(f"{indent}{fact:{width}} {fitted(text, max_width)}")


def print_table(
    rows: Sequence[Mapping[str, str]],
    empty: str,
    *,
    right: Collection[str] = (),
    wrapped: str | None = None,
) -> None:
    """Rows by column, or `empty` if there are none. `right` names the columns that are aligned
    right, `wrapped` the one that may take several lines: it is the first that becomes narrower."""
    if not rows:
        typer.echo(empty)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in rows[0]:
        justify: Any = "right" if column in right else "left"
        table.add_column(column, justify=justify, no_wrap=column != wrapped)
    for row in rows:
        table.add_row(*row.values())
    console().print(table)


def print_remark(text: str, style: str = "") -> None:
    """One line below a table."""
    out = console()
    out.print(fitted(text, out.width), style=style)


def console(*, stderr: bool = False) -> Console:
    # Loading rich takes a tenth of a second, and most commands do not need it.
    from rich.console import Console

    out = Console(stderr=stderr, highlight=False, markup=False)
    if not out.is_terminal:
        out.width = _UNLIMITED
    return out


def shortened(text: str, width: int) -> str:
    """On one line and without control characters, which a terminal would obey: the text comes from
    others."""
    line = "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(line.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def fitted(text: str, width: int) -> str:
    """Shortened on a terminal; complete, on one line, in a file or a pipe."""
    return shortened(text, width if sys.stdout.isatty() else len(text))
