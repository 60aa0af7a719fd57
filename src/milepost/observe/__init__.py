"""What others ask a Milepost: every gauge in one look, and whether a process is alive and ready."""

from milepost.observe.metrics import (
    ChannelGauges,
    LogGauges,
    Metrics,
    PipelineGauges,
    ProcessorGauges,
    QueueGauges,
    RetentionGauges,
    SegmentGauges,
    look,
)
from milepost.observe.probes import ProbeLimits

__all__ = [
    "ChannelGauges",
    "LogGauges",
    "Metrics",
    "PipelineGauges",
    "ProbeLimits",
    "ProcessorGauges",
    "QueueGauges",
    "RetentionGauges",
    "SegmentGauges",
    "look",
]
