"""Lines from a file or a pipe, in batches that are passed on when the input pauses."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from dataclasses import dataclass

# Long enough for batches to fill while a program writes, short enough for `read --follow |
# append` to pass a single message on.
PAUSE_SECONDS = 0.1
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    text: bytes


def line_batches(source: int, max_lines: int | None) -> Iterator[list[Line]]:
    """The lines that are not blank, at most `max_lines` per batch, fewer when the input pauses;
    without `max_lines`, all of them in one batch."""
    batch: list[Line] = []
    number = 0
    for text in _lines(source):
        if text is not None:
            number += 1
            if text.strip():
                batch.append(Line(number, text))
        is_due = max_lines is not None and (text is None or len(batch) >= max_lines)
        if batch and is_due:
            yield batch
            batch = []
    if batch:
        yield batch


def _lines(source: int) -> Iterator[bytes | None]:
    """Every line without its line break; None when the input pauses."""
    rest = b""
    for chunk in _chunks(source):
        if chunk is None:
            yield None
            continue
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest


def _chunks(source: int) -> Iterator[bytes | None]:
    while True:
        if not select.select([source], [], [], PAUSE_SECONDS)[0]:
            yield None
            select.select([source], [], [])
        chunk = os.read(source, _CHUNK_BYTES)
        if not chunk:
            return
        yield chunk
