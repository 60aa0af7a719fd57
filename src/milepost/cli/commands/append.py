"""`milepost append`: messages from JSON lines, many per transaction."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Annotated

import psycopg
import typer

from milepost.app import Milepost
from milepost.cli import options
from milepost.cli.failures import in_one_line
from milepost.cli.line_input import Line, line_batches
from milepost.cli.message_lines import message_from
from milepost.cli.output import print_json, say
from milepost.db import Connection
from milepost.errors import InvalidMessage, MilepostError, PayloadTooLarge, WithFacts
from milepost.log.encode import encode
from milepost.records import Message, Position
from milepost.words import count

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


class AppendStopped(WithFacts):
    """Some lines were not appended; those of earlier transactions were."""

    where: str
    reason: str
    before: Appended
    template = "{where}: {reason} {_so_far}"

    @property
    def _so_far(self) -> str:
        done = self.before
        so_far = f"{count(done.messages, 'message')}, up to line {done.last_line}"
        return f"Committed before: {so_far}." if done.messages else "Nothing was committed."


def command(
    mp: Milepost,
    file: Annotated[
        Path, typer.Argument(show_default=False, help="JSON lines. Default, or -: stdin.")
    ] = _STDIN,
    topic: Annotated[str | None, typer.Option(help="For lines without a topic.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="For lines without a type.")] = None,
    key: Annotated[str | None, typer.Option(help="For lines without a key.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Lines per transaction.")] = 1000,
    atomic: Annotated[
        bool, typer.Option("--atomic", help="Append all lines in one transaction.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Append messages, one JSON object per line: type, data, and optionally key, topic, metadata
    and id. The output of `milepost read` is accepted unchanged."""
    given = {"type": type_, "topic": topic, "key": key}
    defaults = {name: value for name, value in given.items() if value is not None}
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
        say("reading messages from standard input, one JSON object per line; end with Ctrl-D")
    yield sys.stdin.fileno()


def _open(file: Path) -> FileIO:
    try:
        return FileIO(file)
    except OSError as exc:
        raise AppendStopped(str(file), f"{exc.strerror}.", Appended()) from exc


def _append(
    mp: Milepost, conn: Connection, batch: list[Line], defaults: Mapping[str, str], done: Appended
) -> Appended:
    """One batch, in its own transaction."""
    messages = [_message(line, defaults, mp.max_payload_bytes, done) for line in batch]
    try:
        positions = mp.append(conn, *messages)
    except (MilepostError, psycopg.Error) as exc:
        raise _refused(conn, batch, exc, done) from exc
    return Appended(done.messages + len(messages), positions[-1], batch[-1].number)


def _message(
    line: Line, defaults: Mapping[str, str], max_payload_bytes: int, done: Appended
) -> Message:
    """Checked here too, because the line number is known here."""
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
    if conn.closed:  # the commit may have succeeded, and only its answer was lost
        reason += " It is not known whether these lines were committed."
    return AppendStopped(lines, reason, done)
