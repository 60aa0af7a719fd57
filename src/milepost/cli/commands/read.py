"""`milepost read`: messages as JSON lines, in order."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterator
from typing import Annotated, BinaryIO

import orjson
import typer

from milepost import log
from milepost.app import Milepost
from milepost.cli.message_lines import line_from
from milepost.errors import InvalidStart
from milepost.log import Batch, Reader, Start
from milepost.records import RecordedMessage, Segment

_BATCH_SIZE = 1000
_MAX_MASK = 2**31 - 1


def command(
    mp: Milepost,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="START",
            help="beginning, end, a position (42 or 17:42; reads after it) or a time (ISO 8601; "
            "local without a time zone; reads what was recorded then or later).",
        ),
    ] = "beginning",
    topics: Annotated[list[str] | None, typer.Option("--topic", help="Repeatable.")] = None,
    types: Annotated[list[str] | None, typer.Option("--type", help="Repeatable.")] = None,
    segment: Annotated[
        str | None, typer.Option(metavar="ID/MASK", help="Only keys of this segment, such as 1/3.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Only messages of this key. Needs `milepost migrate --with-key-index`."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this many messages.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep waiting for new messages.")
    ] = False,
    poll_seconds: Annotated[
        float, typer.Option(min=0.01, help="How often to poll, in addition to notifications.")
    ] = 1.0,
) -> None:
    """Print the messages of the log in order, one JSON object per line."""
    if key is not None and segment is not None:
        raise typer.BadParameter("expected one of --key and --segment.", param_hint="--key")
    with mp.reader(
        parse_start(start),
        topics=topics or None,
        types=types or None,
        segment=None if segment is None else parse_segment(segment),
        key=key,
        batch_size=min(limit or _BATCH_SIZE, _BATCH_SIZE),
    ) as reader:
        reader.keeps_raw = True
        batches = reader.batches(poll_seconds) if follow else _to_the_end(reader)
        _write(reader, batches, limit)


def parse_start(text: str, option: str = "--from") -> Start:
    try:
        return log.parse_start(text)
    except InvalidStart as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def parse_segment(text: str) -> Segment:
    """`1/3`: the keys whose hash & 3 is 1. All bits of a mask are ones, so that it can be split."""
    id_, _, mask = text.partition("/")
    if id_.isdecimal() and mask.isdecimal():
        segment = Segment(int(id_), int(mask))
        if segment.id <= segment.mask <= _MAX_MASK and segment.mask & (segment.mask + 1) == 0:
            return segment
    raise typer.BadParameter(
        f"{text!r} is not a segment: expected ID/MASK with a mask of 0, 1, 3, 7, 15 ... and an "
        "id from 0 to the mask.",
        param_hint="--segment",
    )


def _to_the_end(reader: Reader) -> Iterator[Batch]:
    while True:
        batch = reader.read()
        yield batch
        if not batch.is_full:
            return


def _line(reader: Reader, message: RecordedMessage) -> bytes:
    """A message that cannot be encoded again (a lone surrogate, or nesting that is too deep for
    orjson) is read once more, undecoded."""
    try:
        return line_from(message)
    except orjson.JSONEncodeError:
        return line_from(reader.raw(message.position))


def _write(reader: Reader, batches: Iterator[Batch], limit: int | None) -> None:
    """Flushed after each batch, so that a program that follows gets a message when it is read."""
    output, left = sys.stdout.buffer, limit
    for batch in batches:
        messages = batch.messages[:left]
        output.write(b"".join(_line(reader, message) for message in messages))
        output.flush()
        if left is not None:
            left -= len(messages)
        if left == 0 or _is_abandoned(output):
            return


def _is_abandoned(output: BinaryIO) -> bool:
    """Whether the other end of our pipe is closed. A write would detect it too, but then
    `read --follow | head -1` would wait for a second message before it ends."""
    poll = select.poll()
    poll.register(output, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))
