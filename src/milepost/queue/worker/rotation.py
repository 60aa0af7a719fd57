"""The place of a taker in the rotation over channels, and what it remembers while looks are slow.

A look over all channels is slow in two cases. While any session of the server holds an old snapshot
open, jobs that were taken leave dead entries at the head of their channel in the index, and every
look walks over all of them. And every channel that is at its limit has to be counted. So a taker
whose looks are slow remembers where the living jobs of each channel begin. For a while it looks
only from there on, and at channels of jobs that were put since. It spends at most an eleventh of
its time on looks from the beginning, as long as one takes less than a second. What it does not see
meanwhile (a job that waits again in its former place, a slot that another worker freed) waits no
longer than that, and never longer than ten seconds and a look.

A remembered place lags behind the last job that was taken, by some hundred jobs: a put that commits
late has an earlier time than jobs that were taken already. Jobs that are more urgent than the place
are seen (see take_from.sql).

A look goes over as many channels as it takes to get all the jobs that are wanted: each channel
costs something, so a few that give much are best; where each has little, a few give too little.

Pure: times are passed in.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from milepost.records import TakenJob

# A place in the order of a channel's jobs: priority, time, id.
Head: TypeAlias = "tuple[int, datetime, int]"
Heads: TypeAlias = "dict[str, Head]"
BEGINNING: Head = (-(2**15), datetime(1, 1, 1, tzinfo=UTC), 0)

# A look is slow when it takes longer than this, and longer than its jobs account for: so many times
# as long as they have taken in the quickest look, but no longer than this.
SLOW_SECONDS = 0.004
QUICKEST_TIMES = 2
SECONDS_A_JOB = 0.0001
TELLING_JOBS = 100  # a look that gave fewer says little about what each takes
# Hints are used for this many times as long as the slow look took, but no longer than this: a
# machine that held the look up for a while must not hide jobs for minutes.
HINTED_TIMES = 10
HINTED_AT_MOST_SECONDS = 10.0
CHANNELS_A_LOOK = 100
# How many jobs a remembered place lags behind, at least; a channel that gave none for the longest
# time is forgotten first.
LAG_JOBS = 100
MOST_KNOWN = 2_000
# What was put before a full look, and was not committed then, is seen for so long.
LAG_TIME = timedelta(seconds=1)
# Where hints were of little help, something else is slow: so many looks may be, within limits.
TOLERATED_LOOKS = 20
# Over how many channels to look. After so many looks in a row that got all, fewer may do.
NARROWEST, WIDEST = 50, 400
CONTENT_LOOKS = 50


@dataclass(slots=True)
class Place:
    """Where to look from in one channel. `head` is used; `next` replaces it LAG_JOBS later."""

    head: Head
    next: Head
    jobs: int = 0  # taken since `next`

    def advance(self, last: Head, jobs: int) -> None:
        self.jobs += jobs
        if self.jobs >= LAG_JOBS:
            self.head, self.next, self.jobs = self.next, last, 0


@dataclass(slots=True)
class Rotation:
    slow_seconds: float = SLOW_SECONDS
    hinted_times: float = HINTED_TIMES
    hinted_at_most: float = HINTED_AT_MOST_SECONDS
    after: str | None = None  # the channel that was served last
    width: int = NARROWEST
    _content_looks: int = 0  # in a row
    _seconds_a_job: float = SECONDS_A_JOB / QUICKEST_TIMES  # in the quickest look
    _slow_looks: int = 0  # in a row
    _full_seconds: float = 0.0  # of the last full look
    _hinted_until: float = 0.0
    _hinted: list[float] = field(default_factory=list)  # what the looks since then took
    _tolerated_looks: int = 0
    _tolerated_seconds: float = 0.0
    _known: dict[str, Place] = field(default_factory=dict)

    @property
    def is_slow(self) -> bool:
        """Whether the last full look was slow."""
        return self._slow_looks > 0

    def hinted_seconds(self, now: float) -> float:
        """For how long hints are used from now on; 0: look in full."""
        return max(0.0, self._hinted_until - now)

    def heads(self, now: float) -> Heads:
        """The channels to take from next, by hints; empty: none is known, or look in full."""
        if now >= self._hinted_until or not self._known:
            return {}
        names = sorted(self._known)
        turn = bisect_right(names, self.after or "")
        chosen = (names[turn:] + names[:turn])[:CHANNELS_A_LOOK]
        return {name: self._known[name].head for name in chosen}

    def took(
        self,
        jobs: Sequence[TakenJob],
        seconds: float,
        now: float,
        *,
        is_all: bool = True,
        looked_at: datetime | None = None,
    ) -> None:
        """What a full look found, whether that is all that was wanted, and how long it took. One
        slow look may have other reasons. `looked_at`: the server's time when it began."""
        self._judge_hints()
        self._note_quick(seconds, len(jobs))
        self._fit(len({job.channel for job in jobs}), is_all=is_all)
        self._full_seconds = seconds
        self._slow_looks = self._slow_looks + 1 if self._is_slow(seconds, len(jobs)) else 0
        if self._slow_looks > 1:
            self._hinted_until = now + min(self.hinted_times * seconds, self.hinted_at_most)
        if not self._slow_looks:
            self._known.clear()
        elif looked_at is not None:
            self._found_all_before(jobs, looked_at - LAG_TIME)
        self._remember(jobs)

    def took_from(self, jobs: Sequence[TakenJob], seconds: float) -> None:
        """What a hinted look found."""
        self._hinted.append(seconds)
        self._note_quick(seconds, len(jobs))
        self._remember(jobs)

    def found_none(self, channel: str, empty_at: datetime | None) -> None:
        """A full look took nothing from it. If it was empty at this time of the server, its later
        jobs come after that, with the priority that they had before, or the usual one."""
        if empty_at is None:
            self._known.setdefault(channel, Place(BEGINNING, BEGINNING))
            return
        priority = self._known[channel].head[0] if channel in self._known else None
        head = (priority or 0, empty_at - LAG_TIME, 0)
        self._known[channel] = Place(head, head)

    def gave_back(self, job: TakenJob) -> None:
        """It waits again where it waited before."""
        head = (job.priority, job.run_at, job.id)
        if (place := self._known.get(job.channel)) is not None and head < place.head:
            self._known[job.channel] = Place(head, head)

    def _fit(self, channels: int, *, is_all: bool) -> None:
        """Wider, if the channels were too few. Narrower only slowly: it must not oscillate."""
        self._content_looks = self._content_looks + 1 if is_all else 0
        if not is_all and channels >= self.width:
            self.width = min(WIDEST, 2 * self.width)
        elif self._content_looks >= CONTENT_LOOKS:
            self.width = max(NARROWEST, self.width // 2)
            self._content_looks = 0

    def _note_quick(self, seconds: float, jobs: int) -> None:
        if jobs >= TELLING_JOBS:
            self._seconds_a_job = min(self._seconds_a_job, seconds / jobs)

    def _judge_hints(self) -> None:
        """Hints that save less than a third of the time are not worth what they hide. By the
        median: a machine that holds one look up says nothing about hints."""
        if self._hinted and median(self._hinted) > self._full_seconds * 2 / 3:
            self._tolerated_looks = TOLERATED_LOOKS
            self._tolerated_seconds = 2 * self._full_seconds
        self._hinted.clear()

    def _is_slow(self, seconds: float, jobs: int) -> bool:
        self._tolerated_looks = max(0, self._tolerated_looks - 1)
        tolerated = self._tolerated_seconds if self._tolerated_looks else 0.0
        usual = self.slow_seconds + QUICKEST_TIMES * self._seconds_a_job * jobs
        return seconds > max(usual, tolerated)

    def _found_all_before(self, jobs: Sequence[TakenJob], time: datetime) -> None:
        """A full look saw what is before the jobs that it took."""
        for channel, (head, _) in _last_of_each(jobs).items():
            priority, run_at, _ = head
            place = (priority, min(run_at, time), 0)
            self._known[channel] = Place(place, place)

    def _remember(self, jobs: Sequence[TakenJob]) -> None:
        if not jobs:
            return
        self.after = jobs[-1].channel
        if not self._slow_looks:
            return
        for channel, (last, number) in _last_of_each(jobs).items():
            # Taken out first: those that gave jobs last are at the end.
            place = self._known.pop(channel, None) or Place(last, last)
            place.advance(last, number)
            self._known[channel] = place
        while len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]


def _last_of_each(jobs: Iterable[TakenJob]) -> dict[str, tuple[Head, int]]:
    """The place of the last job of each channel, in the order of taking, and how many it gave."""
    found: dict[str, tuple[Head, int]] = {}
    for job in jobs:
        _, number = found.get(job.channel, (None, 0))
        found[job.channel] = (job.priority, job.run_at, job.id), number + 1
    return found
