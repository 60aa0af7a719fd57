"""The log as a Spark data source: `spark.read` and `spark.readStream` with `format("milepost")`.

Offsets are positions, never above the horizon. The driver plans ranges, executors read them;
the two share nothing but what is pickled: the connection's URL travels inside the reader, as
bytes that no plan and no page of Spark shows.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
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
from milepost.pipeline import options
from milepost.pipeline.arrow import RangeReader
from milepost.pipeline.filters import push
from milepost.pipeline.names import COLUMNS
from milepost.pipeline.planner import Planner
from milepost.pipeline.ranges import Range
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from milepost.pipeline.filters import Conditions
    from milepost.pipeline.options import SourceOptions

_TYPES = {"bigint": LongType(), "string": StringType(), "timestamp": TimestampType()}
SCHEMA = StructType([StructField(n, _TYPES[kind]) for n, kind in COLUMNS.items()])


class RangePartition(InputPartition):
    """One task's share: positions and conditions, nothing secret."""

    def __init__(self, range_: Range, conditions: Conditions) -> None:
        self.range = range_
        self.conditions = conditions


class MilepostSource(DataSource):
    """Register it once a session: `spark.dataSource.register(MilepostSource)`."""

    @classmethod
    def name(cls) -> str:
        return "milepost"

    def schema(self) -> StructType:
        return schema_of(self._parsed().columns)

    def reader(self, schema: StructType) -> BatchReader:
        parsed = self._parsed()
        if parsed.max_messages is not None:
            raise InvalidOption(
                "maxMessagesPerTrigger", "is for streams: a batch reads up to endingPosition."
            )
        return BatchReader(parsed, _columns_of(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        parsed = self._parsed()
        if parsed.end != "latest":
            raise InvalidOption("endingPosition", "is for batch reads: a stream has no end.")
        return StreamReader(parsed, _columns_of(schema))

    def _parsed(self) -> SourceOptions:
        return options.parse(self.options, os.environ)


class BatchReader(DataSourceReader):
    """Everything between two positions, which are found when the query is planned."""

    def __init__(self, given: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = given
        self._conditions = given.conditions
        self._reads = range_reader(given, columns)

    @property
    def pushFilters(self) -> PushFilters:  # noqa: N802 - Spark's name
        return PushFilters(self)

    def take(self, filters: list[Filter]) -> list[Filter]:
        """Let the server answer these, as far as it can; the others are Spark's to answer."""
        self._conditions, left = push(filters, self._conditions)
        return left

    def partitions(self) -> list[InputPartition]:
        planner = Planner(self._options)
        try:
            # The start first: what is appended meanwhile must not come before it.
            range_ = Range(planner.start(), planner.end())
            parts = planner.split_for_tasks(range_, self._conditions)
        finally:
            planner.close()
        return [RangePartition(part, self._conditions) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._reads, partition)


class PushFilters:
    """Where push-down is off, as it is by default, Spark refuses a reader that takes filters
    instead of filtering itself. To that check, this looks like the method that takes none; only
    where push-down is on, it is called."""

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._reader.take(filters)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Range after range. Lives in one process of the driver for as long as the query runs."""

    def __init__(self, given: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = given
        self._reads = range_reader(given, columns)
        self._planner = Planner(given)
        self._frozen: Position | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return as_offset(self._planner.start())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._options.max_messages
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        max_count = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        after = as_position(start)
        newest = self._planner.horizon() if self._frozen is None else self._frozen
        return as_offset(self._planner.reach(after, newest, max_count))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._frozen = self._planner.horizon()

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return as_offset(self._planner.horizon())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        range_ = Range(as_position(start), as_position(end))
        conditions = self._options.conditions
        return [
            RangePartition(part, conditions) for part in self._planner.split(range_, conditions)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._reads, partition)

    def stop(self) -> None:
        self._planner.close()

    def __getstate__(self) -> dict[str, Any]:
        """For executors, which read and plan nothing; a connection cannot travel."""
        return self.__dict__ | {"_planner": None}


def schema_of(columns: tuple[str, ...]) -> StructType:
    return StructType([SCHEMA[name] for name in columns])


def range_reader(given: SourceOptions, columns: tuple[str, ...]) -> RangeReader:
    return RangeReader(given.conninfo, given.schema, columns, given.retry_seconds)


def read_partition(reader: RangeReader, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, RangePartition):
        raise TypeError(f"expected a RangePartition, not {type(partition).__name__}")
    return reader.batches(partition.range, partition.conditions)


def as_offset(position: Position) -> dict[str, int]:
    """A position in the words of Spark's offset log."""
    return {"transaction_id": position.transaction_id, "position": position.position}


def as_position(offset: dict[str, int]) -> Position:
    return Position(offset["transaction_id"], offset["position"])


def _columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns that a schema of the caller's names, or ours."""
    for column in schema:
        if column.name not in SCHEMA.names or SCHEMA[column.name].dataType != column.dataType:
            raise InvalidOption(
                "columns", f"cannot give {column.name} as {column.dataType.simpleString()}."
            )
    return tuple(schema.names)
