"""Run a pipeline: sessions, the stream, catching up by ranges, reports."""

from milepost.pipeline.run.catch_up import RangeLoop
from milepost.pipeline.run.driver import supervised
from milepost.pipeline.run.report import PipelineStatus
from milepost.pipeline.run.session import PipelineSession, is_passing
from milepost.pipeline.run.setup import Setup

__all__ = ["PipelineSession", "PipelineStatus", "RangeLoop", "Setup", "is_passing", "supervised"]
