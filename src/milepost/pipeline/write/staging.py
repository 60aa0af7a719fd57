"""Staging: the table into which executors copy a batch's rows, until the driver merges them.

A task that is retried, or runs twice because Spark speculates, copies its rows twice. So each
attempt has its own tag, and only the tags that Spark returns to the driver count: it returns the
output of one attempt for each partition. The rows of other attempts are deleted later.

If the merge adds up the rows of a key, they are added up before they are copied: by each task those
that it has, or by Spark over all tasks, where that costs less.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import adbc_driver_manager as adbc
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as f

from milepost import db
from milepost.pipeline.source import executor_connection
from milepost.pipeline.write.column_types import ATTEMPT, ROW
from milepost.pipeline.write.spark_sums import SparkSums, pays

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from milepost.db import Connection
    from milepost.pipeline.write.column_types import Column
    from milepost.pipeline.write.presum import Sums

Copy: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
# Rows are gathered, then copied: a COPY that waits for Spark to compute is an open writing
# transaction, which holds back the horizon of a log in transaction order.
CHUNK_BYTES = 32 * 1024 * 1024
SMALL_ROWS = 2_000  # so few reach the driver sooner than a Python worker starts
SWEEP_ROWS = 20_000  # a merge also reads the rows that earlier batches have left
_ANSWER = "partition bigint, attempt bigint, rows bigint, copied bigint"


@dataclass(frozen=True, slots=True)
class Staged:
    """The attempts that count, in the order of their partitions. How many rows the output has, and
    how many were copied."""

    staging: str
    attempts: list[int]
    rows: int
    copied: int

    def parameters(self) -> dict[str, Any]:
        return {"staging": self.staging, "attempts": self.attempts}


@dataclass(slots=True)
class Staging:
    """One table for one version of a pipeline."""

    conninfo: str = field(repr=False)
    schema: str
    name: str
    is_ordered: bool = False
    sums: Sums | None = None  # how a task adds up its rows of a key before, if it may
    spark_sums: SparkSums | None = None  # how Spark adds them up over all tasks, if it may
    cores: int = 1  # of all executors
    _left_over: int = field(default=0, init=False)

    def create(self, conn: Connection, columns: Sequence[Column]) -> None:
        own = [(ATTEMPT, "bigint"), *([(ROW, "bigint")] if self.is_ordered else [])]
        all_ = own + [(column.name, column.staged_type) for column in columns]
        names, types = [name for name, _ in all_], [kind for _, kind in all_]
        db.run(conn, self.schema, "create_staging", staging=self.name, columns=names, types=types)

    def stage(
        self,
        df: DataFrame,
        columns: Sequence[Column],
        messages: int,
        may_repeat: bool = True,
    ) -> Staged:
        """Runs the batch. `messages`: about how many it reads. Few messages mostly give few rows.
        `may_repeat`: whether it may be computed twice."""
        staged = None
        # Not if the order matters: a limit may shuffle.
        if messages <= SMALL_ROWS and may_repeat and not self.is_ordered:
            staged = self._through_driver(df, columns)
        if staged is None:
            staged = self._on_executors(df, columns, self._sums(messages))
        self._left_over += staged.copied
        return staged

    def _through_driver(self, df: DataFrame, columns: Sequence[Column]) -> Staged | None:
        """Halves the time of a batch of few rows. None if there are more, and nothing is staged
        then."""
        table = converted(df, columns).limit(SMALL_ROWS + 1).toArrow()
        if table.num_rows > SMALL_ROWS:
            return None
        if not table.num_rows:
            return Staged(self.name, [], 0, 0)
        attempt = secrets.randbits(63)
        rows = tagged(table, attempt, 0, is_ordered=False)
        with executor_connection.in_driver:
            self.copy(rows)
        return Staged(self.name, [attempt], table.num_rows, table.num_rows)

    def _on_executors(
        self, df: DataFrame, columns: Sequence[Column], sums: Sums | SparkSums | None
    ) -> Staged:
        """One Spark job. It returns only tags and counts."""
        rows = converted(df, columns)
        if isinstance(sums, SparkSums):
            rows = sums.of(rows, self.cores)
        answers = rows.mapInArrow(copy_function(self, sums), _ANSWER).collect()
        answers.sort(key=lambda row: row.partition)
        return Staged(
            self.name,
            [row.attempt for row in answers],
            sum(row.rows for row in answers),
            sum(row.copied for row in answers),
        )

    def _sums(self, messages: int) -> Sums | SparkSums | None:
        is_in_spark = self.spark_sums is not None and pays(messages, self.cores)
        return self.spark_sums if is_in_spark else self.sums

    def copy(self, rows: pa.Table) -> None:
        """One COPY. Spark's next attempt, or the driver, finds out whether the server was lost."""
        try:
            executor_connection.connection(self.conninfo).copy(self.schema, self.name, rows)
        except adbc.Error:
            executor_connection.forget(self.conninfo)
            raise

    def sweep(self, conn: Connection) -> None:
        """Empty the table if it holds many rows. Only between two batches of this driver. A batch
        of another driver that loses its rows finds out when it merges."""
        if self._left_over >= SWEEP_ROWS:
            self.clean(conn)

    def clean(self, conn: Connection) -> bool:
        (is_clean,) = db.fetch_one(conn, self.schema, "clean_staging", staging=self.name)
        if is_clean:
            self._left_over = 0
        return bool(is_clean)


def converted(df: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """As it is copied. Unchanged if nothing is converted: Spark analyses one plan less."""
    if not any(column.conversion for column in columns):
        return df
    return df.select([_expression(column) for column in columns])


def _expression(column: Column) -> SparkColumn:
    source = f.col(f"`{column.name.replace('`', '``')}`")
    if column.conversion == "json":
        return f.to_json(source).alias(column.name)
    return source.cast("smallint").alias(column.name) if column.conversion else source


def copy_function(staging: Staging, sums: Sums | SparkSums | None) -> Copy:
    """What each task runs. A closure, because Spark pickles it as a whole: the URL in it is bytes
    that no plan shows."""

    def copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt, rows, copied = secrets.randbits(63), 0, 0
        for table, count in counted(chunks(batches), sums):
            staging.copy(tagged(table, attempt, copied, is_ordered=staging.is_ordered))
            rows, copied = rows + count, copied + table.num_rows
        if rows:
            answer = {"partition": _partition(), "attempt": attempt, "rows": rows, "copied": copied}
            yield pa.RecordBatch.from_pylist([answer])

    return copy


def counted(
    tables: Iterator[pa.Table], sums: Sums | SparkSums | None
) -> Iterator[tuple[pa.Table, int]]:
    """What is copied, and how many rows of the output it stands for."""
    if isinstance(sums, SparkSums):
        return map(sums.received, tables)
    if sums is not None:
        return sums.over(tables, CHUNK_BYTES)
    return ((table, table.num_rows) for table in tables)


def chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together to tables that are copied by one COPY."""
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


def _partition() -> int:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("Rows are staged by a Spark task, and this code does not run in one.")
    return context.partitionId()
