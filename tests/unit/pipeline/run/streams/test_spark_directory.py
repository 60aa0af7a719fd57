"""Whether Spark's directory fits the checkpoint."""

from __future__ import annotations

import pytest

from milepost.pipeline.run.streams.spark_directory import DirectoryState, parse_end
from milepost.records import Position


def state(start: int, end: int, *, is_committed: bool) -> DirectoryState:
    return DirectoryState(Position(0, start), Position(0, end), is_committed)


@pytest.mark.parametrize(
    ("found", "checkpoint", "fits"),
    [
        (state(10, 20, is_committed=True), 20, True),
        (state(10, 20, is_committed=False), 20, True),  # replayed, and passed over
        (state(10, 20, is_committed=False), 10, True),  # replayed, and written
        (state(10, 20, is_committed=True), 10, False),  # Spark would skip the batch
        (state(10, 20, is_committed=True), 30, False),
        (state(10, 20, is_committed=False), 15, False),
    ],
)
def test_the_checkpoint_decides(found: DirectoryState, checkpoint: int, *, fits: bool) -> None:
    assert found.fits(Position(0, checkpoint)) is fits


@pytest.mark.parametrize(("checkpoint", "fits"), [(5, True), (10, True), (20, True), (30, False)])
def test_where_spark_writes_by_itself_the_checkpoint_may_be_behind(
    checkpoint: int, *, fits: bool
) -> None:
    found = state(10, 20, is_committed=True)
    assert found.fits(Position(0, checkpoint), is_leading=True) is fits


def test_the_end_of_a_batch_is_read_from_sparks_file() -> None:
    text = 'v1\n{"batchWatermarkMs":0}\n{"transaction_id": 3, "position": 42}'
    assert parse_end(text) == Position(3, 42)
