"""What a file store keeps of a segment, and which messages that includes. Pure.

Segments overlap only as a whole: one holds the other, because a split adds a bit to the mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from milepost.encode import to_json
from milepost.errors import InvalidEntries
from milepost.records import Position, Segment

if TYPE_CHECKING:
    from milepost.records import RecordedMessage


@dataclass(frozen=True, slots=True)
class Part:
    """All messages of a segment up to a position are in the entries."""

    segment: Segment
    position: Position


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is saved, by message key. Of the parts that hold a key, the last one counts."""

    entries: dict[str, Any]
    parts: tuple[Part, ...] = ()

    def includes(self, message: RecordedMessage) -> bool:
        """Whether the entries hold its effect: it was saved, and is delivered again."""
        for part in reversed(self.parts):
            if part.segment.holds(message.key):
                return message.position <= part.position
        return False


@dataclass(frozen=True, slots=True)
class Saved:
    """A segment's file."""

    segment: Segment
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Header:
    """`saved`: the position of the last save under the claim; None if it has only loaded."""

    saved: Position | None
    parts: tuple[Part, ...]


EMPTY = Header(None, ())


def narrower(one: Segment, other: Segment) -> Segment | None:
    """What two segments share: the narrower of them, or nothing."""
    if (one.id ^ other.id) & one.mask & other.mask:
        return None
    return max(one, other, key=lambda segment: segment.mask)


def combined(segment: Segment, files: Iterable[Saved]) -> Snapshot:
    """Of the files that hold a key the last one counts, also for what it does not have any more."""
    entries: dict[str, Any] = {}
    parts: list[Part] = []
    for file in files:
        if (shared := narrower(file.segment, segment)) is None:
            continue
        entries = {key: value for key, value in entries.items() if not shared.holds(key)}
        entries |= _held(shared, file)
        parts = [part for part in parts if narrower(part.segment, shared) != part.segment]
        parts += _cut(segment, file.snapshot.parts)
    return Snapshot(entries, tuple(parts))


def continued(segment: Segment, header: Header, position: Position) -> Header:
    """The header of a save. What was loaded may lie beyond what this claim has handled so far, and
    its position is raised rather than left out: an earlier part would count in its place."""
    parts = [Part(part.segment, max(part.position, position)) for part in header.parts]
    if all(part.position == position for part in parts):
        parts = []
    return Header(position, (Part(segment, position), *parts))


def refuse_foreign(segment: Segment, entries: Mapping[str, Any]) -> None:
    """Another segment would not find them after a split, or would find two after a merge."""
    for key in entries:
        if not isinstance(key, str) or not segment.holds(key):
            raise InvalidEntries(
                f"segment {segment.id} does not hold the key {key!r}. Entries are kept by the key "
                "of the messages that they are made of, so that segments may be split and merged"
            )


def encoded(header: Header, entries: Mapping[str, Any]) -> bytes:
    first = {
        "saved": None if header.saved is None else str(header.saved),
        "parts": [[p.segment.id, p.segment.mask, str(p.position)] for p in header.parts],
    }
    content = to_json("entries", dict(entries), _refused, may_hold_nul=True)
    return orjson.dumps(first) + b"\n" + content


def decoded_header(line: bytes) -> Header:
    first = orjson.loads(line)
    saved = None if first["saved"] is None else Position.parse(first["saved"])
    parts = (Part(Segment(id_, mask), Position.parse(at)) for id_, mask, at in first["parts"])
    return Header(saved, tuple(parts))


def decoded(line: bytes, content: bytes) -> Snapshot:
    return Snapshot(orjson.loads(content), decoded_header(line).parts)


def _held(shared: Segment, file: Saved) -> dict[str, Any]:
    if shared == file.segment:
        return file.snapshot.entries
    return {key: value for key, value in file.snapshot.entries.items() if shared.holds(key)}


def _cut(segment: Segment, parts: Sequence[Part]) -> list[Part]:
    """What they say about the keys of a segment."""
    shared = ((narrower(part.segment, segment), part.position) for part in parts)
    return [Part(cut, position) for cut, position in shared if cut is not None]


def _refused(field: str, reason: str) -> InvalidEntries:
    return InvalidEntries(f"{field} {reason.rstrip('.')}")
