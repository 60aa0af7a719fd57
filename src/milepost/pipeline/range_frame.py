"""A range of the log as a DataFrame, for whoever writes range after range.

As the source reads it, but planned here, on the connection that found the range: to plan a read
through the source, Spark starts two processes, each of which would connect anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from milepost.pipeline.ranges import Range
from milepost.pipeline.source import range_reader, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from milepost.pipeline.arrow import RangeReader
    from milepost.pipeline.filters import Conditions
    from milepost.pipeline.planner import Planner

Read: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def range_frame(spark: SparkSession, planner: Planner, range_: Range) -> DataFrame:
    """The messages of the range that the planner's options select, one task for each part."""
    given = planner.options
    parts = planner.split_for_tasks(range_, given.conditions)
    read = read_function(range_reader(given, given.columns), parts, given.conditions)
    numbers = spark.range(0, len(parts), 1, len(parts))
    return numbers.mapInArrow(read, schema_of(given.columns))


def read_function(reader: RangeReader, parts: list[Range], conditions: Conditions) -> Read:
    """What each task runs, given the number of its part. A closure, because Spark pickles it as a
    whole: the URL in it is bytes that no plan shows."""

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from reader.batches(parts[number], conditions)

    return read
