"""Staging: where executors put a batch's rows, until the driver merges them.

A task that is retried, or runs twice because Spark speculates, copies its rows twice. So every
attempt has a tag of its own, and only the tags that Spark hands to the driver count: it hands on
the output of one attempt for each partition. What the others left behind is swept out later.

Where rows of one key are added up anyway, each task adds up its own before it copies them.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import adbc_driver_manager as adbc
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as f

from milepost import sql
from milepost.db import one, translated
from milepost.pipeline import connections
from milepost.pipeline.columns import ATTEMPT, ROW

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from milepost.db import Connection
    from milepost.pipeline.columns import Column
    from milepost.pipeline.sums import Sums

Copy: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
# Rows are gathered, then copied at once: a COPY that waits for Spark to compute is an open writing
# transaction, which holds back the horizon of a log in transaction order.
CHUNK_BYTES = 32 * 1024 * 1024
SMALL_ROWS = 2_000  # as many reach the driver sooner than a Python worker is at work
SWEEP_ROWS = 20_000  # a merge reads past what is left over from earlier batches
_ANSWER = pa.schema(
    [("partition", pa.int32()), *((name, pa.int64()) for name in ("attempt", "rows", "copied"))]
)
_ANSWER_DDL = "partition int, attempt bigint, rows bigint, copied bigint"
# A driver runs several pipelines, each in a thread of its own, over one connection.
_through_driver = threading.Lock()


@dataclass(frozen=True, slots=True)
class Staged:
    """The attempts that count, in the order of their partitions; how many rows the output has, and
    how many were copied of them."""

    attempts: list[int]
    rows: int
    copied: int


@dataclass(slots=True)
class Staging:
    """One table for one version of a pipeline."""

    conninfo: str = field(repr=False)
    schema: str
    name: str
    is_ordered: bool = False
    sums: Sums | None = None  # where rows of one key may be added up before
    _left_over: int = field(default=0, init=False)

    def create(self, conn: Connection, columns: Sequence[Column]) -> None:
        own = [(ATTEMPT, "bigint"), *([(ROW, "bigint")] if self.is_ordered else [])]
        parameters = {
            "staging": self.name,
            "columns": [name for name, _ in own] + [c.name for c in columns],
            "types": [kind for _, kind in own] + [c.staged_type for c in columns],
        }
        with translated(self.schema):
            conn.execute(sql.query("create_staging", self.schema), parameters)

    def stage(
        self, df: DataFrame, columns: Sequence[Column], messages: int | None = None
    ) -> Staged:
        """Runs the batch. `messages`, if it may be computed twice, is how many go into it: a few
        mostly give a few rows."""
        staged = None
        # Not where the order counts: a limit may shuffle.
        if messages is not None and messages <= SMALL_ROWS and not self.is_ordered:
            staged = self._through_driver(df, columns)
        if staged is None:
            staged = self._on_executors(df, columns)
        self._left_over += staged.copied
        return staged

    def _through_driver(self, df: DataFrame, columns: Sequence[Column]) -> Staged | None:
        """Spares a batch of a few rows half of its time; None, with nothing staged, if it gives
        more than a few."""
        table = converted(df, columns).limit(SMALL_ROWS + 1).toArrow()
        if table.num_rows > SMALL_ROWS:
            return None
        if not table.num_rows:
            return Staged([], 0, 0)
        attempt = secrets.randbits(63)
        rows = tagged(table, attempt, 0, is_ordered=False)
        with _through_driver:
            _ingest(self.conninfo, self.schema, self.name, rows)
        return Staged([attempt], table.num_rows, table.num_rows)

    def _on_executors(self, df: DataFrame, columns: Sequence[Column]) -> Staged:
        """One job of Spark's; nothing but tags and counts come back."""
        copy = copy_function(
            self.conninfo, self.schema, self.name, self.sums, is_ordered=self.is_ordered
        )
        answers = converted(df, columns).mapInArrow(copy, _ANSWER_DDL).collect()
        answers.sort(key=lambda row: row.partition)
        return Staged(
            [row.attempt for row in answers],
            sum(row.rows for row in answers),
            sum(row.copied for row in answers),
        )

    def sweep(self, conn: Connection) -> None:
        """Empty the table if enough has gathered in it. Only between two batches of this driver;
        a batch of another one that loses its rows by it finds them missing as it merges."""
        if self._left_over >= SWEEP_ROWS:
            self.clean(conn)

    def clean(self, conn: Connection) -> bool:
        with translated(self.schema):
            row = conn.execute(
                sql.query("clean_staging", self.schema), {"staging": self.name}
            ).fetchone()
        is_clean = bool(one(row)[0])
        if is_clean:
            self._left_over = 0
        return is_clean


def converted(df: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """As it is copied. Untouched if nothing is to be converted: a plan less to analyse."""
    if not any(column.conversion for column in columns):
        return df
    return df.select([_expression(column) for column in columns])


def _expression(column: Column) -> SparkColumn:
    source = f.col(f"`{column.name.replace('`', '``')}`")
    if column.conversion == "json":
        return f.to_json(source).alias(column.name)
    return source.cast("smallint").alias(column.name) if column.conversion else source


def copy_function(
    conninfo: str, schema: str, staging: str, sums: Sums | None, *, is_ordered: bool
) -> Copy:
    """What each task runs. A closure, because Spark pickles it as a whole: the URL in it is bytes
    that no plan shows."""

    def copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt, rows, copied = secrets.randbits(63), 0, 0
        for chunk in chunks(batches):
            rows += chunk.num_rows
            fewer = chunk if sums is None else sums.of(chunk)
            table = tagged(fewer, attempt, copied, is_ordered=is_ordered)
            _ingest(conninfo, schema, staging, table)
            copied += fewer.num_rows
        if rows:
            yield answer(_partition(), attempt, rows, copied)

    return copy


def chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together to what is copied at once."""
    gathered: list[pa.RecordBatch] = []
    gathered_bytes = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        gathered.append(batch)
        gathered_bytes += batch.nbytes
        if gathered_bytes >= CHUNK_BYTES:
            yield pa.Table.from_batches(gathered)
            gathered, gathered_bytes = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered)


def tagged(table: pa.Table, attempt: int, first_row: int, *, is_ordered: bool) -> pa.Table:
    count = table.num_rows
    table = table.append_column(ATTEMPT, pa.repeat(pa.scalar(attempt, pa.int64()), count))
    if is_ordered:
        numbers = pa.array(range(first_row, first_row + count), pa.int64())
        table = table.append_column(ROW, numbers)
    return table


def answer(*values: int) -> pa.RecordBatch:
    named = dict(zip(_ANSWER.names, values, strict=True))
    return pa.RecordBatch.from_pylist([named], schema=_ANSWER)


def _partition() -> int:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("Rows are staged by a task of Spark's, and this is none.")
    return context.partitionId()


def _ingest(conninfo: str, schema: str, staging: str, table: pa.Table) -> None:
    """One COPY. Whether it failed because the server was lost is found out by Spark's next attempt,
    or by the driver."""
    try:
        connections.connection(conninfo).copy(schema, staging, table)
    except adbc.Error:
        connections.forget(conninfo)
        raise
