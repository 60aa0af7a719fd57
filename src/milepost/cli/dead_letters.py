"""`milepost dead-letters`: the messages that processors gave up on."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import orjson
import typer

from milepost import sql
from milepost.cli import options
from milepost.cli.confirm import confirm
from milepost.cli.database import open_log
from milepost.cli.output import console, count, duration, fitted, print_json
from milepost.errors import UnknownDeadLetter
from milepost.log import decode_json
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
Key: TypeAlias = Annotated[
    str | None, typer.Option("--key", help="Those of messages with this key only.")
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
        list_all(None, 100, None, url, schema, as_json)


@app.command("list")
def list_all(
    processor: Processor = None,
    limit: Annotated[int, typer.Option(min=1)] = 100,
    key: Key = None,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """The oldest first; `parked` are those that wait in order behind one of their key."""
    with open_log(url, schema).connect() as conn:
        found = dead_letters.list_dead_letters(conn, schema, processor, limit, key)
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
    key: Key = None,
    everything: All = False,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """Ask the running processor to handle them once more, within two seconds. One of a parked key
    means all of that key, in order."""
    with open_log(url, schema).connect() as conn:
        chosen = _chosen(conn, schema, ids, processor, key, everything=everything)
        number = dead_letters.request_retry(conn, schema, chosen)
    typer.echo(f"{count(number, 'dead letter')} will be retried by the running processor")


@app.command()
def drop(
    ids: Ids = None,
    processor: Processor = None,
    key: Key = None,
    everything: All = False,
    yes: options.Yes = False,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
) -> None:
    """Forget them for good. A parked key of which none is left flows again."""
    with open_log(url, schema).connect() as conn:
        chosen = _chosen(conn, schema, ids, processor, key, everything=everything)
        if chosen:
            confirm(f"drop {count(len(chosen), 'dead letter')} for good", yes=yes)
        number = dead_letters.drop(conn, schema, chosen)
    typer.echo(f"dropped {count(number, 'dead letter')}")


def as_document(letter: DeadLetter) -> dict[str, Any]:
    """As it was, also what Python cannot decode."""
    document = asdict(letter)
    for name in ("transaction_id", "raw_data", "raw_metadata"):
        del document[name]
    parts = {"data": _as_value(letter.raw_data), "metadata": _as_value(letter.raw_metadata)}
    return document | parts | {"position": str(letter.at)}


def _as_value(written: bytes) -> Any:
    """JSON for `print_json`: decoded, to be indented; as it was written where Python cannot decode
    it, or could not encode it again."""
    try:
        value = decode_json(written)
        orjson.dumps(value)
    except (ValueError, TypeError, RecursionError):
        return orjson.Fragment(written)
    return value


def _chosen(
    conn: Connection,
    schema: str,
    ids: list[int] | None,
    processor: str | None,
    key: str | None,
    *,
    everything: bool,
) -> list[int]:
    """Never all of them by leaving something out."""
    if sum([bool(ids), key is not None, everything]) != 1:
        raise typer.BadParameter("Give the ids of dead letters, or --key, or --all.")
    for id_ in ids or []:
        if dead_letters.dead_letter(conn, schema, id_) is None:
            raise UnknownDeadLetter(id_)
    if ids:
        return ids
    found = dead_letters.list_dead_letters(conn, schema, processor, limit=1_000_000, key=key)
    return [letter.id for letter in found]


def _print_table(found: list[DeadLetter]) -> None:
    from rich.table import Table

    if not found:
        typer.echo("no dead letters")
        return
    rows = [_cells(letter) for letter in found]
    table = Table(box=None, pad_edge=False)
    columns = [column for column in rows[0] if any(row[column] for row in rows)]
    for column in columns:
        table.add_column(column, no_wrap=column != "error")  # what wraps is narrowed first
    for row in rows:
        table.add_row(*(row[column] or "-" for column in columns))
    console().print(table)


def _cells(letter: DeadLetter) -> dict[str, str]:
    """By column; one that is empty for all is left out."""
    age = duration((datetime.now(UTC) - letter.failed_at).total_seconds())
    key = fitted(letter.key or "", 20)
    return {
        "id": str(letter.id),
        "processor": fitted(letter.processor, 20),
        "position": str(letter.at),
        "type": fitted(letter.type, 20),
        "key": f"{key} (parked)" if key and letter.is_parked else key,
        "tries": str(letter.attempts),
        "failed": f"{age} ago",
        "error": fitted(letter.error, 120),
    }
