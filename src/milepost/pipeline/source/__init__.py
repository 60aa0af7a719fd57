"""The log as a Spark data source, and what reads it range by range."""

from milepost.pipeline.source.filters import Conditions
from milepost.pipeline.source.options import (
    DEFAULT_RETRY_SECONDS,
    SourceOptions,
    complete_conninfo,
)
from milepost.pipeline.source.options import parse as parse_options
from milepost.pipeline.source.parts import Part, holds_only
from milepost.pipeline.source.plain_errors import plainly
from milepost.pipeline.source.planner import Planner
from milepost.pipeline.source.range_reader import RangeReader, arrow_schema
from milepost.pipeline.source.ranges import LEAST_PER_PART, Range
from milepost.pipeline.source.readers import BatchReader, StreamReader, requested_columns, schema_of
from milepost.pipeline.source.tail import tail
from milepost.pipeline.source.workers_python import refuse_other_python

__all__ = [
    "DEFAULT_RETRY_SECONDS",
    "LEAST_PER_PART",
    "BatchReader",
    "Conditions",
    "Part",
    "Planner",
    "Range",
    "RangeReader",
    "SourceOptions",
    "StreamReader",
    "arrow_schema",
    "complete_conninfo",
    "holds_only",
    "parse_options",
    "plainly",
    "refuse_other_python",
    "requested_columns",
    "schema_of",
    "tail",
]
