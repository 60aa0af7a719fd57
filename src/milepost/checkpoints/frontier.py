"""From completions in any order to the contiguous position. Pure: no clock, lock or store.

Messages are admitted in order and get a sequence, 1, 2, 3 ... They complete in any order; the
frontier is the highest sequence up to which all have completed. The position of its message may be
stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from milepost.records import Position


@dataclass(slots=True)
class Frontier:
    """What is complete without a gap, and what is complete above the first gap."""

    admitted: int = 0
    sequence: int = 0
    position: Position | None = None
    completed: int = 0  # in total, each message counted once
    _waiting: dict[int, Position] = field(default_factory=dict)

    @property
    def pending(self) -> int:
        """Admitted and not yet below the frontier: not complete, or complete above a gap."""
        return self.admitted - self.sequence

    @property
    def oldest_gap(self) -> int | None:
        """The first sequence that has not completed, if one is admitted."""
        return self.sequence + 1 if self.pending else None

    def admit(self) -> int:
        self.admitted += 1
        return self.admitted

    def complete(self, sequence: int, position: Position) -> bool:
        """Whether the frontier moved. A repeated or old sequence has no effect."""
        if not 0 < sequence <= self.admitted:
            raise ValueError(
                f"sequence {sequence} was never admitted (the last one was {self.admitted})."
            )
        if sequence <= self.sequence or sequence in self._waiting:
            return False
        self._waiting[sequence] = position
        self.completed += 1
        return self._advance()

    def _advance(self) -> bool:
        before = self.sequence
        while (position := self._waiting.pop(self.sequence + 1, None)) is not None:
            self.sequence += 1
            self.position = position
        return self.sequence > before
