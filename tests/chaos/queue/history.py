"""What happened to the jobs of a fleet, twice told, and whether the limits held. Pure.

The server tells when a job began and ceased to be held (a trigger), the handlers when they began
and ended. An attempt that was killed ends when its lock expired.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    max_concurrency: int | None = None
    release_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """One attempt, from its begin to its end."""

    job: int
    attempt: int
    channel: str
    begin: float
    end: float


def too_many(spans: Iterable[Span], limits: dict[str, Limit]) -> dict[str, int]:
    """The channels of which more ran at once than allowed, and how many did at most."""
    return {
        channel: most
        for channel, own in by_channel(spans).items()
        if (allowed := limits[channel].max_concurrency) is not None
        and (most := most_at_once(own)) > allowed
    }


def most_at_once(spans: Iterable[Span]) -> int:
    """At equal times an end comes first."""
    steps = sorted(step for span in spans for step in ((span.begin, 1), (span.end, -1)))
    running = most = 0
    for _, step in steps:
        running += step
        most = max(most, running)
    return most


def too_soon(spans: Iterable[Span], limits: dict[str, Limit]) -> dict[str, float]:
    """The channels of which two were released within their interval, and the shortest one."""
    found = {}
    for channel, own in by_channel(spans).items():
        allowed = limits[channel].release_seconds
        begins = sorted(span.begin for span in own)
        gaps = [later - earlier for earlier, later in itertools.pairwise(begins)]
        if allowed is not None and gaps and min(gaps) < allowed:
            found[channel] = min(gaps)
    return found


def too_fast(spans: Iterable[Span], per_second: float, burst: int) -> dict[str, int]:
    """The channels that gave more jobs in some time than a rate allows, and how many more. By the
    same reckoning as the server's: each job empties a bucket a little, which fills evenly."""
    found = {}
    for channel, own in by_channel(spans).items():
        full_at = excess = 0.0
        for begin in sorted(span.begin for span in own):
            full_at = max(full_at, begin) + 1 / per_second
            excess = max(excess, (full_at - begin) * per_second - burst)
        if excess > 0.01:
            found[channel] = math.ceil(excess)
    return found


def by_channel(spans: Iterable[Span]) -> dict[str, list[Span]]:
    found: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        found[span.channel].append(span)
    return found


def spans_of_handlers(
    lines: Iterable[str], expiries: dict[tuple[int, int], float], now: float
) -> list[Span]:
    """From what the handlers wrote. An attempt without an end was killed: it ends when its lock
    expired, as far as that is known, else now."""
    begins: dict[tuple[int, int], tuple[str, float]] = {}
    ends: dict[tuple[int, int], float] = {}
    for line in lines:
        event, job, attempt, channel, at = line.split()
        key = int(job), int(attempt)
        if event == "begin":
            begins[key] = channel, float(at)
        else:
            ends[key] = float(at)
    return [
        Span(*key, channel, begin, ends.get(key, expiries.get(key, now)))
        for key, (channel, begin) in begins.items()
    ]
