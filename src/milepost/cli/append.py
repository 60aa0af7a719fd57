"""`milepost append`: messages from lines of JSON, many to a transaction."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import psycopg
import typer

from milepost import sql
from milepost.cli import options
from milepost.cli.database import open_log
from milepost.cli.failures import in_one_line
from milepost.cli.line_input import Line, line_batches
from milepost.cli.message_lines import Defaults, message_from
from milepost.cli.output import count, print_json, say
from milepost.errors import InvalidMessage, MilepostError, PayloadTooLarge
from milepost.log.encode import encode
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.app import Milepost
    from milepost.db import Connection
    from milepost.records import Message

_STDIN = Path("-")


@dataclass(frozen=True, slots=True)
class Appended:
    """What has been committed so far."""

    messages: int = 0
    last_position: Position | None = None
    last_line: int = 0

    def __str__(self) -> str:
        where = "" if self.last_position is None else f", last position {self.last_position}"
        return f"appended {count(self.messages, 'message')}{where}"


class AppendStopped(MilepostError):
    """Some lines were not appended; those of earlier transactions were."""

    def __init__(self, where: str, reason: str, before: Appended) -> None:
        self.where, self.reason, self.before = where, reason, before
        messages = count(before.messages, "message")
        so_far = f"Committed before: {messages}, up to line {before.last_line}."
        super().__init__(f"{where}: {reason} {so_far if before.messages else 'Nothing committed.'}")


def command(
    file: Annotated[
        Path, typer.Argument(show_default=False, help="JSON lines; without it or -: stdin.")
    ] = _STDIN,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    topic: Annotated[str | None, typer.Option(help="For lines without a topic.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="For lines without a type.")] = None,
    key: Annotated[str | None, typer.Option(help="For lines without a key.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Lines to a transaction.")] = 1000,
    atomic: Annotated[
        bool, typer.Option("--atomic", help="Everything in one transaction, or nothing.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Append messages, a JSON object a line: type, data, and optionally key, topic, metadata
    and id. What `milepost read` prints is accepted as it is."""
    defaults = Defaults(type_, topic, key)
    mp = open_log(url, schema)
    done = Appended()
    try:
        with mp.connect() as conn, _opened(file) as source:
            for batch in line_batches(source, None if atomic else batch_size):
                done = _append(mp, conn, batch, defaults, done)
    except KeyboardInterrupt:
        say(f"interrupted: {done}")
        raise
    if as_json:
        position = None if done.last_position is None else str(done.last_position)
        print_json({"appended": done.messages, "last_position": position})
    else:
        say(str(done))


@contextmanager
def _opened(file: Path) -> Iterator[int]:
    if file != _STDIN:
        with _open(file) as opened:
            yield opened.fileno()
        return
    if sys.stdin.isatty():
        say("reading messages from standard input, a JSON object a line; end with Ctrl-D")
    yield sys.stdin.fileno()


def _open(file: Path) -> FileIO:
    try:
        return FileIO(file)
    except OSError as exc:
        raise AppendStopped(str(file), f"{exc.strerror}.", Appended()) from exc


def _append(
    mp: Milepost, conn: Connection, batch: list[Line], defaults: Defaults, done: Appended
) -> Appended:
    """One batch, in a transaction of its own."""
    messages = [_message(line, defaults, mp.max_payload_bytes, done) for line in batch]
    try:
        positions = mp.append(conn, *messages)
    except (MilepostError, psycopg.Error) as exc:
        raise _refused(conn, batch, exc, done) from exc
    return replace(
        done,
        messages=done.messages + len(messages),
        last_position=positions[-1],
        last_line=batch[-1].number,
    )


def _message(line: Line, defaults: Defaults, max_payload_bytes: int, done: Appended) -> Message:
    """Checked here as well, where the number of the line is known."""
    try:
        message = message_from(line.text, defaults)
        encode(message, max_payload_bytes)
    except InvalidMessage as exc:
        raise AppendStopped(f"line {line.number}", f"{exc.field} {exc.reason}", done) from exc
    except PayloadTooLarge as exc:
        raise AppendStopped(f"line {line.number}", str(exc), done) from exc
    return message


def _refused(conn: Connection, batch: list[Line], exc: Exception, done: Appended) -> AppendStopped:
    lines = f"lines {batch[0].number} to {batch[-1].number}"
    reason = in_one_line(exc).rstrip(".") + "."
    if conn.closed:  # lost on the way: the commit may have been done, and its answer lost
        reason += " Whether these lines were committed is not known."
    return AppendStopped(lines, reason, done)
