"""`df.writeStream` and `df.write` with `format("milepost")`: each row becomes a message, exactly
once.

Tasks copy their rows into a staging table, each attempt with its own tags. Spark gives the driver
the tags of the attempts that count, and one transaction appends their rows and notes the batch.

A stream is known by the id of its query, which Spark keeps in the checkpoint directory. The API of
Python data sources does not say it, but every task of a stream knows it.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from milepost import adbc, sql
from milepost.errors import NotOfAStream
from milepost.pipeline.sink.commit import Attempt, Commit, lost_server_told
from milepost.pipeline.sink.rows import Rows
from milepost.pipeline.source import executor_connection, plainly
from milepost.pipeline.write.staging import Staging, chunks, tagged
from milepost.runtime import Patience

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

    from milepost.pipeline.sink.options import SinkOptions

_QUERY = "sql.streaming.queryId"  # set by Spark for the tasks of a streaming query
_ONLY_BATCH = 0  # of a batch write


class BatchWriter(DataSourceArrowWriter):
    """One transaction for the whole DataFrame."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._commit = Commit(options, Rows.of(schema, options.topic))
        self._query = str(uuid4())
        self._staging = ""

    def begin(self) -> BatchWriter:
        """On the driver: what is wrong with the database is said before any task starts. Tasks do
        not open the write: one that is late would open it again after it was aborted."""
        self._staging = self._commit.open(self._query, is_stream=False, retry_seconds=0)
        return self

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Attempt:
        return stage(self._commit, self._query, iterator, self._staging)

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit.write(messages, _ONLY_BATCH)
        self._commit.close(self._query)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        self._commit.close(self._query)


class StreamWriter(DataSourceStreamArrowWriter):
    """One transaction for each batch of a query. What an aborted batch has staged is swept after a
    later one."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._commit = Commit(options, Rows.of(schema, options.topic))

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Attempt:
        return stage(self._commit, _query_of_task(), iterator)

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._commit.write(messages, batchId)


def stage(commit: Commit, query: str, batches: Iterator[pa.RecordBatch], name: str = "") -> Attempt:
    """What each task runs. A task without rows does not connect. `name`: of the staging table;
    without it, that of a stream."""
    tags: list[int] = []
    copied = 0
    for table in chunks(batches):
        with lost_server_told(commit.options.retry_seconds):
            name = name or _opened(commit, query)
            tags.append(_copied(commit, name, table, copied))
        copied += table.num_rows
    return Attempt(query, name, tuple(tags), copied)


def _copied(commit: Commit, name: str, table: pa.Table, first_row: int) -> int:
    """The tag of the rows. After a restart of the server they are copied again with another one:
    what was lost may be only the answer to the first COPY."""
    options, patience = commit.options, Patience(commit.options.retry_seconds)
    staging = Staging(options.conninfo, options.schema, name, is_ordered=True)
    rows = commit.rows.staged(table)
    while True:
        tag = secrets.randbits(63)
        try:
            staging.copy(tagged(rows, tag, first_row, is_ordered=True))
        except adbc.Error as error:
            patience.wait_or_raise(error)
        else:
            return tag


def _opened(commit: Commit, query: str) -> str:
    """The staging table of a stream. Asked through the connection of this worker, which a restart
    of the server may have cut since the last task. What else fails is asked again through psycopg:
    its errors have a SQLSTATE."""
    options, parameters = commit.options, {"query_id": query, "is_stream": True}
    statement = adbc.with_literals(sql.query("open_spark_write", options.schema), parameters)
    try:
        found = executor_connection.connection(options.conninfo).row(statement.encode())
    except (adbc.Error, OSError):
        executor_connection.forget(options.conninfo)
        return commit.open(query, is_stream=True, retry_seconds=options.retry_seconds)
    return str(found["staging"])


def _query_of_task() -> str:
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(_QUERY)
    if query is None:
        raise NotOfAStream
    return query
