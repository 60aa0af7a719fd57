"""The log as DataFrames: what is archived is read by Spark itself, the rest through Python."""

from milepost.pipeline.frames.content import is_refused_content, with_content
from milepost.pipeline.frames.given_messages import given_frame
from milepost.pipeline.frames.letter_frame import Letter, letter_frame
from milepost.pipeline.frames.range_frame import is_unreadable_file, range_frame
from milepost.pipeline.frames.whole_log import history

__all__ = [
    "Letter",
    "given_frame",
    "history",
    "is_refused_content",
    "is_unreadable_file",
    "letter_frame",
    "range_frame",
    "with_content",
]
