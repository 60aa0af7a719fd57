"""`milepost dead-letters`: the messages that processors and pipelines gave up on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

import orjson
import typer

from milepost.app import Milepost
from milepost.cli import options, output
from milepost.cli.on_log import command_of, new_group
from milepost.db import Connection
from milepost.errors import UnknownDeadLetter
from milepost.log import decode_json
from milepost.processors.set_aside import dead_letters
from milepost.processors.set_aside.dead_letters import DeadLetter
from milepost.words import count, duration

Ids: TypeAlias = Annotated[list[int] | None, typer.Argument(metavar="[ID]...")]
Processor: TypeAlias = Annotated[
    str | None, typer.Option("--processor", help="Only those of this processor or pipeline.")
]
Key: TypeAlias = Annotated[
    str | None, typer.Option("--key", help="Only those of messages with this key.")
]
All: TypeAlias = Annotated[bool, typer.Option("--all", help="All of them, instead of ids.")]


def list_all(
    mp: Milepost,
    processor: Processor = None,
    limit: Annotated[int, typer.Option(min=1)] = 100,
    key: Key = None,
    as_json: options.AsJson = False,
) -> None:
    """List dead letters, oldest first. `parked` means: waits, in order, behind a failed message of
    the same key."""
    with mp.connect() as conn:
        found = dead_letters.list_dead_letters(conn, mp.schema, processor, limit, key)
    output.print_listing(found, as_document, _print_dead_letters, as_json=as_json)


app = new_group(
    "Messages that processors and pipelines gave up on: list, show, retry, drop.", list_all, "list"
)


@command_of(app)
def show(mp: Milepost, id_: Annotated[int, typer.Argument(metavar="ID")]) -> None:
    """Show one dead letter with its message and traceback, as JSON."""
    with mp.connect() as conn:
        letter = dead_letters.dead_letter(conn, mp.schema, id_)
    if letter is None:
        raise UnknownDeadLetter(id_)
    output.print_json(as_document(letter))


@command_of(app)
def retry(
    mp: Milepost,
    ids: Ids = None,
    processor: Processor = None,
    key: Key = None,
    everything: All = False,
) -> None:
    """Ask the running processor or pipeline to handle dead letters again, within two seconds. For a
    parked key, all of its messages are retried, in order."""
    with mp.connect() as conn:
        chosen = _chosen(conn, mp.schema, ids, processor, key, everything=everything)
        number = dead_letters.request_retry(conn, mp.schema, chosen)
    typer.echo(f"{count(number, 'dead letter')} will be retried by the running processor")


@command_of(app)
def drop(
    mp: Milepost,
    ids: Ids = None,
    processor: Processor = None,
    key: Key = None,
    everything: All = False,
    yes: options.Yes = False,
) -> None:
    """Delete dead letters. When the last one of a parked key is deleted, the key is not parked any
    more."""
    with mp.connect() as conn:
        chosen = _chosen(conn, mp.schema, ids, processor, key, everything=everything)
        if chosen:
            output.confirm(f"drop {count(len(chosen), 'dead letter')} for good", yes=yes)
        number = dead_letters.drop(conn, mp.schema, chosen)
    typer.echo(f"dropped {count(number, 'dead letter')}")


def as_document(letter: DeadLetter) -> dict[str, Any]:
    """The message as it was written, even if Python cannot decode it."""
    document = asdict(letter)
    for name in ("transaction_id", "raw_data", "raw_metadata"):
        del document[name]
    parts = {"data": _as_value(letter.raw_data), "metadata": _as_value(letter.raw_metadata)}
    return document | parts | {"position": str(letter.at)}


def _as_value(written: bytes) -> Any:
    """JSON for `print_json`: decoded, so that it is indented; as it was written if Python cannot
    decode it, or could not encode it again."""
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
    """Choosing all of them must be explicit."""
    if sum([bool(ids), key is not None, everything]) != 1:
        raise typer.BadParameter("Pass the ids of dead letters, or --key, or --all.")
    for id_ in ids or []:
        if dead_letters.dead_letter(conn, schema, id_) is None:
            raise UnknownDeadLetter(id_)
    if ids:
        return ids
    found = dead_letters.list_dead_letters(conn, schema, processor, limit=1_000_000, key=key)
    return [letter.id for letter in found]


def _print_dead_letters(found: Sequence[DeadLetter]) -> None:
    rows = [_cells(letter) for letter in found]
    used = {column for row in rows for column, cell in row.items() if cell}
    shown = [{name: cell or "-" for name, cell in row.items() if name in used} for row in rows]
    output.print_table(shown, "no dead letters", wrapped="error")


def _cells(letter: DeadLetter) -> dict[str, str]:
    """By column. A column that is empty in all rows is not shown."""
    age = duration((datetime.now(UTC) - letter.failed_at).total_seconds())
    key = output.fitted(letter.key or "", 20)
    return {
        "id": str(letter.id),
        "processor": output.fitted(letter.processor, 20),
        "version": str(letter.version) if letter.version > 1 else "",
        "position": str(letter.at),
        "type": output.fitted(letter.type, 20),
        "key": f"{key} (parked)" if key and letter.is_parked else key,
        "tries": str(letter.attempts),
        "failed": f"{age} ago",
        "error": output.fitted(letter.error, 120),
    }
