"""Write a range of output exactly once: staged, then merged in one fenced transaction."""

from milepost.pipeline.write.column_types import Column
from milepost.pipeline.write.evolution import Changes
from milepost.pipeline.write.fit import Fit, TargetNow, fit_of
from milepost.pipeline.write.range_writer import (
    CheckpointMoved,
    LetterGone,
    Pending,
    RangeWriter,
    SparkBatch,
    Written,
)

__all__ = [
    "Changes",
    "CheckpointMoved",
    "Column",
    "Fit",
    "LetterGone",
    "Pending",
    "RangeWriter",
    "SparkBatch",
    "TargetNow",
    "Written",
    "fit_of",
]
