"""Segments that this instance gave back with an error: it leaves them to others first.

After each setback the instance waits longer before it claims the segment again, and meanwhile its
share is counted without it. While it has made no progress since the last setback, the instance
itself may be what fails: it asks for one segment at a time, so that the others keep theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.retry import Retry

# Within two heartbeats, this instance's and another's, somebody else has claimed the segment.
PAUSE_BEATS = 3
LONGEST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Setback:
    times: int  # in a row
    until: float


@dataclass(slots=True)
class Setbacks:
    """Pool threads note them, the keeper looks at them. Times are of the monotonic clock."""

    pause: Retry
    _lock: Lock = field(default_factory=Lock, init=False)
    _of: dict[int, _Setback] = field(default_factory=dict, init=False)
    _times: int = field(default=0, init=False)  # of the instance, since it last made progress
    _paused_until: float = field(default=0.0, init=False)

    def note(self, segment: int, claimed_at: float, now: float) -> int:
        """How many there were in a row, of the segment or of the instance. Those of segments that
        were claimed together are one of the instance."""
        with self._lock:
            before = self._of.get(segment)
            times = 1 if before is None else before.times + 1
            if self._times:
                times = max(times, self._times + (claimed_at >= self._paused_until))
            until = now + self.pause.delay_seconds(times, 0.0)
            self._of[segment] = _Setback(times, until)
            self._times = max(self._times, times)
            self._paused_until = max(self._paused_until, until)
            return times

    def progressed(self, segment: int) -> None:
        """Something was made durable: the instance works, and so does the segment."""
        with self._lock:
            self._times = 0
            self._of.pop(segment, None)

    def left_to_others(self, now: float) -> list[int]:
        with self._lock:
            return sorted(id_ for id_, setback in self._of.items() if setback.until > now)

    def at_most(self, held: int, now: float) -> int | None:
        """How many segments this instance takes, where it holds so many; None: its share."""
        if self.left_to_others(now):
            return held
        with self._lock:
            return held + 1 if self._times else None
