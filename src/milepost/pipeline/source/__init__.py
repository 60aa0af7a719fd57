"""The log as a Spark data source, and what reads it range by range."""

from milepost.pipeline.source.data_source import MilepostSource, schema_of
from milepost.pipeline.source.filters import Conditions
from milepost.pipeline.source.options import (
    DEFAULT_RETRY_SECONDS,
    SourceOptions,
    complete_conninfo,
)
from milepost.pipeline.source.parts import Part, holds_only
from milepost.pipeline.source.planner import Planner
from milepost.pipeline.source.range_reader import RangeReader, arrow_schema
from milepost.pipeline.source.ranges import LEAST_PER_PART, Range
from milepost.pipeline.source.tail import tail

__all__ = [
    "DEFAULT_RETRY_SECONDS",
    "LEAST_PER_PART",
    "Conditions",
    "MilepostSource",
    "Part",
    "Planner",
    "Range",
    "RangeReader",
    "SourceOptions",
    "arrow_schema",
    "complete_conninfo",
    "holds_only",
    "schema_of",
    "tail",
]
