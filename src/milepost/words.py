"""Numbers, durations and sizes for people to read."""

from __future__ import annotations

from typing import Any


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def stated(status: Any, name: str) -> str:
    """A number of a record, with `~` if the record names it as estimated: 1,003, ~3,440."""
    return f"{'~' if name in status.estimated else ''}{getattr(status, name):,}"


def duration(seconds: float) -> str:
    """Rounded: 0.4 s, 34 s, 5 min, 3 h, 2 d."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    for size, unit, up_to in ((1, "s", 120), (60, "min", 7200), (3600, "h", 172800)):
        if seconds < up_to:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def size(number: int) -> str:
    """A number of bytes: 2.0 GB, 1.5 MB, 12 bytes."""
    for limit, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")):
        if number >= limit:
            return f"{number / limit:,.1f} {unit}"
    return count(number, "byte")
