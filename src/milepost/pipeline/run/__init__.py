"""Run a pipeline: sessions, by ranges or by a stream, and reports."""

from milepost.pipeline.run.driver import supervised
from milepost.pipeline.run.range_loop import RangeLoop, range_output
from milepost.pipeline.run.report import PipelineStatus
from milepost.pipeline.run.session import is_passing
from milepost.pipeline.run.setup import Setup
from milepost.pipeline.run.streams.session import StreamSession

__all__ = [
    "PipelineStatus",
    "RangeLoop",
    "Setup",
    "StreamSession",
    "is_passing",
    "range_output",
    "supervised",
]
