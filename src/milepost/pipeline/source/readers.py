"""How Spark reads the log, in batches and as a stream.

Offsets are positions, never above the horizon. The driver plans ranges, and executors read them.
They share only what is pickled: the options contain the connection's URL as bytes that no plan and
no page of Spark shows.
"""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from milepost.errors import InvalidOption
from milepost.pipeline.names import COLUMNS, CONTENT
from milepost.pipeline.source import options
from milepost.pipeline.source.filters import push
from milepost.pipeline.source.plain_errors import each_plainly, plainly
from milepost.pipeline.source.planner import Planner
from milepost.pipeline.source.range_reader import RangeReader
from milepost.pipeline.source.ranges import Range
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from milepost.pipeline.source.options import SourceOptions
    from milepost.pipeline.source.parts import Part

_TYPES = {"bigint": LongType(), "string": StringType(), "timestamp": TimestampType()}
SCHEMA = StructType([StructField(n, _TYPES[kind]) for n, kind in COLUMNS.items()])


class BatchReader(DataSourceReader):
    """Everything between two positions, which are determined when the query is planned."""

    def __init__(self, given: SourceOptions) -> None:
        self._options = given

    @property
    def pushFilters(self) -> PushFilters:  # noqa: N802 - Spark's name
        return PushFilters(self)

    def take(self, filters: list[Filter]) -> list[Filter]:
        """The server applies these filters if it can. Returns those that Spark must apply."""
        conditions, left = push(filters, self._options.conditions)
        self._options = replace(self._options, conditions=conditions)
        return left

    @plainly
    def partitions(self) -> list[InputPartition]:
        with closing(Planner(self._options)) as planner:
            return [InputPartition(part) for part in planner.split_for_tasks(planner.batch_range())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        part: Part = partition.value
        return each_plainly(RangeReader(self._options).batches(part.range, part.file))


class PushFilters:
    """If push-down is off, which is the default, Spark refuses a reader that defines `pushFilters`.
    For that check, this looks like the inherited method. It is called only if push-down is on."""

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._reader.take(filters)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Range after range, in one process of the driver for as long as the query runs. An offset of
    Spark has the fields of a position."""

    def __init__(self, given: SourceOptions) -> None:
        self._options = given
        self._planner = Planner(given)
        self._frozen: Position | None = None

    @plainly
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return asdict(self._planner.start())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._options.max_messages
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    @plainly
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        max_count = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        newest = self._planner.horizon() if self._frozen is None else self._frozen
        return asdict(self._planner.reach(Position(**start), newest, max_count))

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._frozen = self._planner.horizon()

    @plainly
    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return asdict(self._planner.horizon())

    @plainly
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        range_ = Range(Position(**start), Position(**end))
        return [InputPartition(part) for part in self._planner.split(range_)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        part: Part = partition.value
        return each_plainly(RangeReader(self._options).batches(part.range, part.file))

    def stop(self) -> None:
        self._planner.close()
        if isinstance(sys.exception(), EOFError):
            sys.excepthook = _without_broken_pipes

    def __getstate__(self) -> dict[str, Any]:
        """For executors, which only read. A connection cannot be pickled."""
        return self.__dict__ | {"_planner": None}


def _without_broken_pipes(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """To stop a stream, Spark closes its end of the socket. The process of this reader then tries
    to send that end of file as an error, and would print a traceback: nobody receives it."""
    if not isinstance(error, BrokenPipeError | ConnectionResetError):
        sys.__excepthook__(kind, error, traceback)


def schema_of(columns: tuple[str, ...]) -> StructType:
    return StructType([SCHEMA[name] for name in columns])


def requested_columns(schema: StructType) -> tuple[str, ...]:
    """The columns of the caller's schema, or ours."""
    if CONTENT in schema.names:
        raise InvalidOption("columns", options.NO_CONTENT)
    for column in schema:
        if column.name not in SCHEMA.names or SCHEMA[column.name].dataType != column.dataType:
            raise InvalidOption(
                "columns", f"cannot give {column.name} as {column.dataType.simpleString()}."
            )
    return tuple(schema.names)
