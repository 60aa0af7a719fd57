"""`milepost dead-letters`: the messages that processors gave up on."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from milepost import sql
from milepost.cli import options
from milepost.cli.database import open_log
from milepost.cli.output import console, count, duration, print_json, shortened
from milepost.errors import UnknownDeadLetter
from milepost.processors import dead_letters

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.processors.dead_letters import DeadLetter

app = typer.Typer(
    help="Messages that processors gave up on: list, show, retry, drop.",
    invoke_without_command=True,
)
Ids: TypeAlias = Annotated[list[int] | None, typer.Argument(metavar="[ID]...")]
Processor: TypeAlias = Annotated[
    str | None, typer.Option("--processor", help="Those of this processor only.")
]
All: TypeAlias = Annotated[bool, typer.Option("--all", help="All of them, instead of ids.")]


@app.callback()
def default(
    context: typer.Context,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Without a command: list."""
    if context.invoked_subcommand is None:
        list_all(None, 100, url, schema, as_json)


@app.command("list")
def list_all(
    processor: Processor = None,
    limit: Annotated[int, typer.Option(min=1)] = 100,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """The oldest first."""
    with open_log(url, schema).connect() as conn:
        found = dead_letters.list_dead_letters(conn, schema, processor, limit)
    if as_json:
        print_json([as_document(letter) for letter in found])
    else:
        _print_table(found)


@app.command()
def show(
    id_: Annotated[int, typer.Argument(metavar="ID")],
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """One dead letter with its message and traceback, as JSON."""
    with open_log(url, schema).connect() as conn:
        letter = dead_letters.dead_letter(conn, schema, id_)
    if letter is None:
        raise UnknownDeadLetter(id_)
    print_json(as_document(letter))


@app.command()
def retry(
    ids: Ids = None,
    processor: Processor = None,
    everything: All = False,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """Ask the running processor to handle them once more, within two seconds."""
    with open_log(url, schema).connect() as conn:
        chosen = _chosen(conn, schema, ids, processor, everything=everything)
        number = dead_letters.request_retry(conn, schema, chosen)
    typer.echo(f"{count(number, 'dead letter')} will be retried by the running processor")


@app.command()
def drop(
    ids: Ids = None,
    processor: Processor = None,
    everything: All = False,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """Forget them for good."""
    with open_log(url, schema).connect() as conn:
        chosen = _chosen(conn, schema, ids, processor, everything=everything)
        number = dead_letters.drop(conn, schema, chosen)
    typer.echo(f"dropped {count(number, 'dead letter')}")


def as_document(letter: DeadLetter) -> dict[str, Any]:
    document = asdict(letter)
    del document["transaction_id"]
    return document | {"position": str(letter.at)}


def _chosen(
    conn: Connection, schema: str, ids: list[int] | None, processor: str | None, *, everything: bool
) -> list[int]:
    """Never all of them by leaving something out."""
    if bool(ids) == everything:
        raise typer.BadParameter("Give the ids of dead letters, or --all.")
    if not everything:
        for id_ in ids or []:
            if dead_letters.dead_letter(conn, schema, id_) is None:
                raise UnknownDeadLetter(id_)
        return ids or []
    found = dead_letters.list_dead_letters(conn, schema, processor, limit=1_000_000)
    return [letter.id for letter in found]


def _print_table(found: list[DeadLetter]) -> None:
    from rich.table import Table

    if not found:
        typer.echo("no dead letters")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("id", "processor", "position", "type", "tries", "failed", "error"):
        table.add_column(column, no_wrap=column != "error")  # what wraps is narrowed first
    now = datetime.now(UTC)
    for letter in found:
        age = duration((now - letter.failed_at).total_seconds())
        table.add_row(
            str(letter.id), shortened(letter.processor, 20), str(letter.at),
            shortened(letter.type, 20), str(letter.attempts), f"{age} ago",
            shortened(letter.error, 120),
        )  # fmt: skip
    console().print(table)
