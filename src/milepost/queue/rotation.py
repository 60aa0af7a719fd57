"""Where a taker stands in the rotation over channels, and how it gets by under a held snapshot.

While any session of the server holds an old snapshot open, jobs that were taken leave dead
entries at the head of their channel in the index, and every look walks over all of them. So a
taker whose look was slow goes on from the last job that it took from each channel for a while,
and spends at most an eleventh of its time on looks from the beginning. What it does not see
meanwhile (a new channel, a more urgent job, one that waits again) waits no longer than that.

A look goes over as many channels as it takes to get all the jobs that are wanted: each channel
costs something, so a few that give much are best; where each has little, a few give too little.

Pure: times are passed in.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from milepost.records import TakenJob

# The order of a channel's jobs; of the last one that was taken from it.
Head: TypeAlias = "tuple[int, datetime, int]"
Heads: TypeAlias = "dict[str, Head]"

# A look is slow when it takes longer than this, and longer than its jobs account for.
SLOW_SECONDS = 0.02
SECONDS_A_JOB = 0.0001
# Hints are used for this many times as long as the slow look took.
HINTED_TIMES = 10
CHANNELS_A_LOOK = 100
# Where hints were of little help, something else is slow: so many looks may be, within limits.
TOLERATED_LOOKS = 20
# Over how many channels to look. After so many looks in a row that got all, fewer may do.
NARROWEST, WIDEST = 50, 400
CONTENT_LOOKS = 50


@dataclass(slots=True)
class Rotation:
    slow_seconds: float = SLOW_SECONDS
    after: str | None = None  # the channel that was served last
    width: int = NARROWEST
    _content_looks: int = 0  # in a row
    _slow_looks: int = 0  # in a row
    _full_seconds: float = 0.0  # of the last full look
    _hinted_until: float = 0.0
    _hinted: list[float] = field(default_factory=list)  # what the looks since then took
    _tolerated_looks: int = 0
    _tolerated_seconds: float = 0.0
    _known: Heads = field(default_factory=dict)

    def heads(self, now: float) -> Heads:
        """The channels to take from next, by hints; empty: look in full."""
        if now >= self._hinted_until or not self._known:
            return {}
        names = sorted(self._known)
        turn = bisect_right(names, self.after or "")
        chosen = (names[turn:] + names[:turn])[:CHANNELS_A_LOOK]
        return {name: self._known[name] for name in chosen}

    def took(
        self, jobs: Sequence[TakenJob], seconds: float, now: float, *, is_all: bool = True
    ) -> None:
        """What a full look found, whether that is all that was wanted, and how long it took. One
        slow look may have other reasons."""
        self._judge_hints()
        self._fit(len({job.channel for job in jobs}), is_all=is_all)
        self._full_seconds = seconds
        self._slow_looks = self._slow_looks + 1 if self._is_slow(seconds, len(jobs)) else 0
        if self._slow_looks > 1:
            self._hinted_until = now + HINTED_TIMES * seconds
        if not self._slow_looks:
            self._known.clear()
        self._remember(jobs)

    def took_from(self, heads: Heads, jobs: Sequence[TakenJob], seconds: float) -> None:
        """What a hinted look found. Channels that gave nothing are left to the full look."""
        self._hinted.append(seconds)
        for name in heads.keys() - {job.channel for job in jobs}:
            del self._known[name]
        self._remember(jobs)

    def _fit(self, channels: int, *, is_all: bool) -> None:
        """Wider, if the channels were too few; narrower by and by, else it would go to and fro."""
        self._content_looks = self._content_looks + 1 if is_all else 0
        if not is_all and channels >= self.width:
            self.width = min(WIDEST, 2 * self.width)
        elif self._content_looks >= CONTENT_LOOKS:
            self.width = max(NARROWEST, self.width // 2)
            self._content_looks = 0

    def _judge_hints(self) -> None:
        """Hints that spare less than half of the time are not worth what they hide."""
        if self._hinted and sum(self._hinted) / len(self._hinted) > self._full_seconds / 2:
            self._tolerated_looks = TOLERATED_LOOKS
            self._tolerated_seconds = 2 * self._full_seconds
        self._hinted.clear()

    def _is_slow(self, seconds: float, jobs: int) -> bool:
        self._tolerated_looks = max(0, self._tolerated_looks - 1)
        tolerated = self._tolerated_seconds if self._tolerated_looks else 0.0
        return seconds > max(self.slow_seconds + SECONDS_A_JOB * jobs, tolerated)

    def _remember(self, jobs: Sequence[TakenJob]) -> None:
        if not jobs:
            return
        self.after = jobs[-1].channel
        if self._slow_looks:
            # In the order in which they were taken: the last one of a channel stays.
            self._known |= {job.channel: (job.priority, job.run_at, job.id) for job in jobs}
