"""What the SQL functions compute, in Python: the first segments, and what a merge makes."""

from __future__ import annotations

from milepost.records import Segment


def initial_segments(number: int) -> list[Segment]:
    """Ids 0 to n - 1. If n is not a power of two, the first ones are split once more."""
    half = 1 << number.bit_length() - 1
    return [Segment(n, _mask(n, number, half)) for n in range(number)]


def merged(segment: Segment) -> Segment:
    """What a segment and its partner make together."""
    mask = segment.mask >> 1
    return Segment(segment.id & mask, mask)


def _mask(n: int, number: int, half: int) -> int:
    return 2 * half - 1 if n < number - half or n >= half else half - 1
