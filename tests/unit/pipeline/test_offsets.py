"""Whether Spark's directory fits the checkpoint."""

from __future__ import annotations

import pytest

from milepost.pipeline.offsets import Began, DirectoryState, Resume, parse_end, resume
from milepost.records import Position

BEGAN = Began("run", Position(0, 0))


def state(start: int, end: int, *, is_committed: bool) -> DirectoryState:
    return DirectoryState(BEGAN, Position(0, start), Position(0, end), is_committed)


@pytest.mark.parametrize(
    ("found", "checkpoint", "decided"),
    [
        (state(10, 20, is_committed=True), 20, Resume.GO_ON),
        (state(10, 20, is_committed=False), 20, Resume.GO_ON),  # replayed, and passed over
        (state(10, 20, is_committed=False), 10, Resume.GO_ON),  # replayed, and written
        (state(10, 20, is_committed=True), 10, Resume.BEGIN_ANEW),  # Spark would skip the batch
        (state(10, 20, is_committed=True), 30, Resume.BEGIN_ANEW),
        (state(10, 20, is_committed=False), 15, Resume.BEGIN_ANEW),
        (None, 0, Resume.BEGIN_ANEW),
    ],
)
def test_the_checkpoint_decides(
    found: DirectoryState | None, checkpoint: int, decided: Resume
) -> None:
    assert resume(found, Position(0, checkpoint), keeps_state=False) is decided
    kept = Resume.REFUSE if decided is Resume.BEGIN_ANEW else decided
    assert resume(found, Position(0, checkpoint), keeps_state=True) is kept


def test_the_end_of_a_batch_is_read_from_sparks_file() -> None:
    text = 'v1\n{"batchWatermarkMs":0}\n{"transaction_id": 3, "position": 42}'
    assert parse_end(text) == Position(3, 42)
