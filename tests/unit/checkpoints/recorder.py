"""What the committer's tests store to, and tell the time by."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event, Lock

from milepost.records import Position


def at(sequence: int) -> Position:
    """Rising, though the second part alone is not."""
    return Position(sequence // 10, sequence % 10)


class StoreFailed(Exception):
    """What a store that is told to fail raises."""


@dataclass(slots=True)
class Recorder:
    """Remembers what was stored. Fails while `failures` last; waits while its gate is shut."""

    failures: int = 0
    stored: list[Position] = field(default_factory=list)
    attempts: int = 0
    entered: Event = field(default_factory=Event)
    gate: Event = field(default_factory=Event)
    overlapped: bool = False
    _alone: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.gate.set()

    def __call__(self, position: Position) -> None:
        if not self._alone.acquire(blocking=False):
            self.overlapped = True
            raise AssertionError("two stores at once")
        try:
            self._store(position)
        finally:
            self._alone.release()

    def _store(self, position: Position) -> None:
        self.attempts += 1
        self.entered.set()
        if not self.gate.wait(30):
            raise AssertionError("the gate was never opened")
        if self.failures:
            self.failures -= 1
            raise StoreFailed(str(position))
        self.stored.append(position)


@dataclass(slots=True)
class Clock:
    """A clock that stands until it is told otherwise, and counts who looks at it."""

    now: float = 1000.0
    looks: int = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.now
