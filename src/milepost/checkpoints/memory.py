"""Checkpoints in memory, for unit tests of code that uses a CheckpointStore."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock

from milepost.checkpoints.store import Answer, Checkpoint, CheckpointKey
from milepost.records import Position


class MemoryCheckpointStore:
    """Answers exactly like the SQL function; not persistent."""

    def __init__(self) -> None:
        self._checkpoints: dict[CheckpointKey, Checkpoint] = {}
        self._lock = Lock()

    def load(self, key: CheckpointKey) -> Checkpoint | None:
        """The checkpoint, or None if nothing was stored yet."""
        with self._lock:
            return self._checkpoints.get(key)

    def store(
        self,
        key: CheckpointKey,
        expected: Position | None,
        new: Position,
        *,
        epoch: int = 0,
        owner: str | None = None,
    ) -> Answer:
        """Move the checkpoint from the expected position to the new one, or not at all."""
        with self._lock:
            answer = judge(self._checkpoints.get(key), expected, new, epoch)
            if answer is Answer.STORED:
                self._checkpoints[key] = Checkpoint(new, epoch, owner)
            return answer

    def reset(self, key: CheckpointKey, to: Position) -> None:
        """Set the checkpoint, whatever it was."""
        with self._lock:
            current = self._checkpoints.get(key, Checkpoint(to))
            self._checkpoints[key] = replace(current, position=to)


def judge(
    current: Checkpoint | None, expected: Position | None, new: Position, epoch: int
) -> Answer:
    """The answer that sql/functions/store_checkpoint.sql gives."""
    if current is None:
        return Answer.STORED if expected is None else Answer.MISSING
    if current.epoch != epoch:
        return Answer.FENCED
    if current.position == new:
        return Answer.IGNORED
    if expected is None:
        return Answer.FURTHER if current.position > new else Answer.OLDER
    if current.position != expected:
        return Answer.FURTHER if current.position > expected else Answer.OLDER
    return Answer.STORED if new > current.position else Answer.FURTHER
