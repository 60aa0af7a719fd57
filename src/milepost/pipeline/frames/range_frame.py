"""The messages of a range as a DataFrame, planned here: to plan a read through the source, Spark
starts two processes, and each of them would open a connection."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from milepost.pipeline.frames.content import with_content
from milepost.pipeline.frames.files_frame import files_frame, readable
from milepost.pipeline.names import CONTENT
from milepost.pipeline.source import (
    Conditions,
    Part,
    Range,
    RangeReader,
    arrow_schema,
    executor_connection,
    schema_of,
)
from milepost.pipeline.spark.connect import cores_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from milepost.pipeline.source import Planner

FEW = 2_000  # so few reach Spark sooner from the driver than from a task
_UNREADABLE = "FAILED_READ_FILE"  # Spark's name for it


def is_unreadable_file(error: BaseException) -> bool:
    """Whether a job failed because Spark could not read a file."""
    return _UNREADABLE in str(error)


def range_frame(
    spark: SparkSession,
    planner: Planner,
    range_: Range,
    columns: Sequence[str],
    *,
    in_python: bool = False,
) -> DataFrame:
    """The messages of the range that the planner's options select. What is archived is read by
    Spark itself, unless `in_python`: then each task reads its part in order, and the parts are in
    order too."""
    parts, conditions = planner.cut(range_), planner.options.conditions
    frames: list[DataFrame] = []
    if not in_python and conditions == Conditions(conditions.topics, conditions.types):
        frames, parts = _by_spark(spark, planner, parts, columns)
    tasks = planner.divided(parts, cores_of(spark))
    if not frames and _are_few(tasks):
        return _by_driver(spark, planner, tasks, columns)
    if tasks or not frames:
        nothing = Part(Range(range_.after, range_.after))
        frames.append(_by_python(spark, planner, tasks or [nothing], columns))
    return reduce(DataFrame.union, frames)


def _are_few(parts: Sequence[Part]) -> bool:
    return len(parts) <= 1 and all(p.file is None and p.range.width <= FEW for p in parts)


def _by_driver(
    spark: SparkSession, planner: Planner, parts: Sequence[Part], columns: Sequence[str]
) -> DataFrame:
    reader, options = RangeReader(planner.options), planner.options
    with executor_connection.in_driver:
        batches = [batch for part in parts for batch in reader.batches(part.range)]
    table = pa.Table.from_batches(batches, schema=arrow_schema(options.columns))
    frame = spark.createDataFrame(table, schema_of(options.columns))
    return with_content(frame, columns)


def _by_spark(
    spark: SparkSession, planner: Planner, parts: Sequence[Part], columns: Sequence[str]
) -> tuple[list[DataFrame], list[Part]]:
    """Frames of the files that Spark reads, and the parts that are left."""
    files = readable(spark, [part.file for part in parts if part.file is not None], columns)
    frames, left = [], [part for part in parts if part.file not in files]
    for group in _groups([part for part in parts if part.file in files], columns):
        found = _frames(spark, planner, group, columns)
        frames += found
        left += [] if found else group
    return frames, sorted(left, key=lambda part: part.range.after)


def _groups(parts: Sequence[Part], columns: Sequence[str]) -> list[list[Part]]:
    """What is read together: all files that are read as a whole, which Spark divides by itself, and
    each file of which only a part is read."""
    whole: dict[bool, list[Part]] = {}
    for part in parts:
        if part.file is not None and part.is_whole:
            whole.setdefault(part.file.has_content and CONTENT in columns, []).append(part)
    return [*whole.values(), *([part] for part in parts if not part.is_whole)]


def _frames(
    spark: SparkSession, planner: Planner, group: Sequence[Part], columns: Sequence[str]
) -> list[DataFrame]:
    """All of it, or none if Spark does not know the file system. It divides a file by its bytes, so
    that one task would read all row groups of a part: these are divided here."""
    is_whole = all(part.is_whole for part in group)
    wanted = [None] if is_whole else [part.range for part in planner.divided(group)]
    files = [part.file for part in group if part.file is not None]
    conditions = planner.options.conditions
    found = [files_frame(spark, files, columns, conditions, range_) for range_ in wanted]
    frames = [frame for frame in found if frame is not None]
    return frames if len(frames) == len(found) else []


def _by_python(
    spark: SparkSession, planner: Planner, parts: Sequence[Part], columns: Sequence[str]
) -> DataFrame:
    """One task for each part."""
    reader = RangeReader(planner.options)

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What each task runs, given the number of its part. A closure, because Spark pickles it as
        a whole: the URL in it is bytes that no plan shows."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from reader.batches(parts[number].range, parts[number].file)

    numbers = spark.range(0, len(parts), 1, len(parts))
    frame = numbers.mapInArrow(read, schema_of(planner.options.columns))
    return with_content(frame, columns)
