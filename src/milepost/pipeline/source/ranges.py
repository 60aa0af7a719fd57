"""Ranges of the log, and how they are split so that all cores read. Pure: the caller passes a probe
of the log."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    # For each transaction id, the first message of that transaction or a later one.
    Probe = Callable[[Sequence[int]], Sequence[Position]]

LEAST_PER_PART = 5_000  # with fewer messages, a second task takes more time than it saves
_SAMPLES = 32
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Range:
    """The messages after one position, up to and including another."""

    after: Position
    last: Position

    @property
    def is_empty(self) -> bool:
        return self.last <= self.after

    @property
    def width(self) -> int:
        """About how many messages, estimated by the positions: see Extent."""
        return abs(self.last.position - self.after.position)

    def parameters(self) -> dict[str, Any]:
        return {
            "after_transaction_id": self.after.transaction_id,
            "after_position": self.after.position,
            "last_transaction_id": self.last.transaction_id,
            "last_position": self.last.position,
        }


@dataclass(frozen=True, slots=True)
class Extent:
    """The first and the last message in a range, and the lowest and the highest position.

    Positions come from one sequence, so that their difference is about the number of messages. In
    transaction order a late message may be early in the range, so the two ends are not enough.
    """

    first: Position
    last: Position
    lowest: int
    highest: int

    @property
    def about(self) -> int:
        return self.highest - self.lowest + 1


def extent(first: Position, last: Position, probe: Probe) -> Extent:
    seen = [first, last]
    if first.transaction_id != last.transaction_id:
        seen += probe(_evenly(first.transaction_id, last.transaction_id, _SAMPLES))
    positions = [position.position for position in seen]
    return Extent(first, last, min(positions), max(positions))


def narrowed(
    range_: Range,
    transaction_ids: tuple[int | None, int | None],
    positions: tuple[int | None, int | None],
) -> Range:
    """What is left of a range if both parts of a position are within these limits, inclusive. The
    second part limits only within one transaction. In append order that is the whole log."""
    after, last = range_.after, range_.last
    lowest, highest = transaction_ids
    if lowest is not None:
        after = max(after, Position(lowest - 1, _LARGEST))
    if highest is not None:
        last = min(last, Position(highest, _LARGEST))
    lowest, highest = positions
    if after.transaction_id == last.transaction_id:
        if lowest is not None:
            after = max(after, Position(after.transaction_id, lowest - 1))
        if highest is not None:
            last = min(last, Position(last.transaction_id, highest))
    return Range(after, last)


def parts_for(about: int, per_part: int) -> int:
    return max(1, -(-about // per_part))


def parts_among(about: int, cores: int) -> int:
    return max(1, min(cores, about // LEAST_PER_PART))


def split(range_: Range, extent: Extent, parts: int, probe: Probe) -> list[Range]:
    """Consecutive ranges of about the same size that make up the whole. Their exact ends matter for
    speed only."""
    targets = _evenly(extent.lowest, extent.highest, parts)[1:-1]
    transaction_ids = _transactions_at(targets, extent, probe)
    inner = sorted(set(map(Position, transaction_ids, targets)))
    kept = [found for found in inner if range_.after < found < range_.last]
    return [Range(after, last) for after, last in pairwise([range_.after, *kept, range_.last])]


def _transactions_at(targets: Sequence[int], extent: Extent, probe: Probe) -> list[int]:
    """For each position, about the transaction that has it: a binary search for all of them, each
    step of which is one query."""
    lows = [extent.first.transaction_id] * len(targets)
    highs = [extent.last.transaction_id] * len(targets)
    while searching := [i for i in range(len(targets)) if lows[i] < highs[i]]:
        middles = [(lows[i] + highs[i] + 1) // 2 for i in searching]
        for i, middle, found in zip(searching, middles, probe(middles), strict=True):
            if found.position <= targets[i]:
                # There is nothing between the requested one and the one found.
                lows[i] = min(max(middle, found.transaction_id), highs[i])
            else:
                highs[i] = middle - 1
    return lows


def _evenly(low: int, high: int, parts: int) -> list[int]:
    """Both ends, and what divides the interval into equal parts."""
    return [low + (high - low) * part // parts for part in range(parts + 1)]
