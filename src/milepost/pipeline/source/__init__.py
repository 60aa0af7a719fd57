"""The log as a Spark data source, and what reads it range by range."""

from milepost.pipeline.source.data_source import MilepostSource, schema_of
from milepost.pipeline.source.filters import Conditions
from milepost.pipeline.source.options import (
    DEFAULT_RETRY_SECONDS,
    SourceOptions,
    complete_conninfo,
)
from milepost.pipeline.source.planner import Planner
from milepost.pipeline.source.range_reader import RangeReader
from milepost.pipeline.source.ranges import Range

__all__ = [
    "DEFAULT_RETRY_SECONDS",
    "Conditions",
    "MilepostSource",
    "Planner",
    "Range",
    "RangeReader",
    "SourceOptions",
    "complete_conninfo",
    "schema_of",
]
