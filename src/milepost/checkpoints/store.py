"""Where checkpoints are kept, and what a store answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from milepost.records import Position


class Answer(IntEnum):
    """The outcome of a store. Only STORED has changed something."""

    IGNORED = 0  # it is at the new position already
    STORED = 1
    FURTHER = 2  # it is ahead of the expected position: a competing instance
    OLDER = 3  # it is behind the expected position: it was reset
    FENCED = 4  # the claim's epoch is no longer the current one
    MISSING = 5  # there is no checkpoint, but one was expected


@dataclass(frozen=True, slots=True)
class CheckpointKey:
    """The processor, or the segment of a processor, that a checkpoint belongs to."""

    processor: str
    version: int = 1
    segment: int = 0

    def parameters(self) -> dict[str, Any]:
        """The processor, as the parameters of a query."""
        return {"processor": self.processor, "version": self.version}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The last position that was durably processed, and who stored it."""

    position: Position
    epoch: int = 0
    owner: str | None = None


def columns(position: Position) -> dict[str, Any]:
    """A position, as the parameters of a query."""
    return {"transaction_id": position.transaction_id, "position": position.position}


class CheckpointStore(Protocol):
    """There are two: PostgreSQL, and memory for users' unit tests."""

    def load(self, key: CheckpointKey) -> Checkpoint | None:
        """The checkpoint, or None if nothing was stored yet."""
        ...

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
        """Set the checkpoint to any position, forward or back; the only way to rewind."""
        ...
