"""Processors: named, versioned consumers of the log, with effects exactly once."""

from milepost.processors.definition import Definition, ProcessorOptions
from milepost.processors.group import Group, stopping_on_signals
from milepost.processors.processor import Processor

__all__ = ["Definition", "Group", "Processor", "ProcessorOptions", "stopping_on_signals"]
