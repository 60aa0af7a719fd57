"""Write a range of output exactly once: staged, then merged in one fenced transaction."""

from milepost.pipeline.write.range_writer import (
    CheckpointMoved,
    LetterGone,
    Pending,
    RangeWriter,
    SparkBatch,
    Written,
)

__all__ = ["CheckpointMoved", "LetterGone", "Pending", "RangeWriter", "SparkBatch", "Written"]
