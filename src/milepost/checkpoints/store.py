"""Where checkpoints are kept, and what a store answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from milepost.records import Position


class Answer(IntEnum):
    """What became of a store. Whatever is not STORED has changed nothing."""

    IGNORED = 0  # it is at the new position already
    STORED = 1
    FURTHER = 2  # it is ahead of what was expected: a competing instance
    OLDER = 3  # it is behind what was expected: somebody reset it
    FENCED = 4  # the claim's epoch is no longer the current one
    MISSING = 5  # there is none, and one was expected


@dataclass(frozen=True, slots=True)
class CheckpointKey:
    """Whose checkpoint it is: a processor's, or one segment's of it."""

    processor: str
    version: int = 1
    segment: int = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The last position that was durably processed, and who stored it."""

    position: Position
    epoch: int = 0
    owner: str | None = None


class CheckpointStore(Protocol):
    """Two real ones: PostgreSQL's, and one in memory for users' unit tests."""

    def load(self, key: CheckpointKey) -> Checkpoint | None: ...

    def store(
        self,
        key: CheckpointKey,
        expected: Position | None,
        new: Position,
        *,
        epoch: int = 0,
        owner: str | None = None,
    ) -> Answer:
        """Move the checkpoint from `expected` (None: there is none yet) to `new`."""
        ...

    def reset(self, key: CheckpointKey, to: Position) -> None:
        """Put the checkpoint anywhere, back as well; the one way to rewind."""
        ...
