"""How segments are cut, joined and told apart. Pure: the SQL functions compute the same.

A segment (id, mask) holds the keys whose hash & mask is its id. A mask is a row of ones; one bit
more cuts a segment in two halves, which differ in that bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from milepost.records import Position, RecordedMessage, Segment, key_hash

MAX_MASK = 2**31 - 1


def halves(segment: Segment) -> tuple[Segment, Segment]:
    if segment.mask >= MAX_MASK:
        raise ValueError(f"Segment {segment.id} cannot be split any further.")
    mask = 2 * segment.mask + 1
    return Segment(segment.id, mask), Segment(segment.id + (mask ^ segment.mask), mask)


def partner(segment: Segment) -> Segment | None:
    """The other half, to merge with; None for the whole."""
    if segment.mask == 0:
        return None
    return Segment(segment.id ^ (segment.mask ^ (segment.mask >> 1)), segment.mask)


def widest(segments: Sequence[Segment]) -> Segment:
    """The one to split where none is named: it holds the most keys, as far as masks tell."""
    return min(segments, key=lambda segment: (segment.mask, segment.id))


def narrowest_pair(segments: Sequence[Segment]) -> tuple[Segment, Segment] | None:
    """The two halves to merge where none is named: those that hold the fewest keys."""
    known = set(segments)
    pairs = [(s, p) for s in segments if (p := partner(s)) is not None and p in known]
    return max(pairs, key=lambda pair: (pair[0].mask, -pair[0].id), default=None)


@dataclass(frozen=True, slots=True)
class Floor:
    """The keys of a slice were handled up to here, before a merge went back to an earlier
    position."""

    segment: Segment
    position: Position

    def covers(self, message: RecordedMessage) -> bool:
        return message.position <= self.position and self.segment.holds(message.key)


def above_floors(
    messages: Sequence[RecordedMessage], floors: Sequence[Floor]
) -> list[RecordedMessage]:
    """What was not handled before."""
    return [m for m in messages if not any(floor.covers(m) for floor in floors)]


class Dealer:
    """Finds the segment of a key among some. Segments of one mask are told apart in one step."""

    def __init__(self, segments: Iterable[Segment]) -> None:
        masks: dict[int, set[int]] = {}
        for segment in segments:
            masks.setdefault(segment.mask, set()).add(segment.id)
        self._masks = list(masks.items())

    def deal(self, messages: Iterable[RecordedMessage]) -> dict[int, list[RecordedMessage]]:
        """The messages of each segment, by its id, in order; others are left out."""
        dealt: dict[int, list[RecordedMessage]] = {id_: [] for _, ids in self._masks for id_ in ids}
        for message in messages:
            hashed = key_hash(message.key)
            for mask, ids in self._masks:
                if hashed & mask in ids:
                    dealt[hashed & mask].append(message)
                    break
        return dealt
