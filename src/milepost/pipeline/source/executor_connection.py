"""The connections of a Python worker of Spark: one for each database, kept between tasks. They read
and write Arrow batches by COPY.

ADBC is used without its DB-API, which imports pandas if it is installed: half a second at the start
of each worker.
"""

from __future__ import annotations

import gc
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import adbc_driver_manager as adbc
import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager import StatementOptions
from adbc_driver_postgresql import StatementOptions as PostgresOptions
from pyspark import TaskContext

from milepost import sql

if TYPE_CHECKING:
    from collections.abc import Iterator

_BATCH_BYTES = str(4 * 1024 * 1024)
_APPEND = {StatementOptions.INGEST_MODE.value: "adbc.ingest.mode.append"}


@dataclass(frozen=True, slots=True)
class Connection:
    """In autocommit mode, the default of the driver."""

    database: adbc.AdbcDatabase
    session: adbc.AdbcConnection

    def stream(self, statement: str) -> Iterator[pa.RecordBatch]:
        """The rows, as the server sends them."""
        with closing(adbc.AdbcStatement(self.session)) as prepared:
            prepared.set_options(**{PostgresOptions.BATCH_SIZE_HINT_BYTES.value: _BATCH_BYTES})
            prepared.set_sql_query(statement)
            handle, _ = prepared.execute_query()
            with pa.RecordBatchReader.from_stream(handle) as reader:
                yield from reader

    def row(self, query: bytes) -> dict[str, Any]:
        rows = pa.Table.from_batches(list(self.stream(query.decode()))).to_pylist()
        first: dict[str, Any] = rows[0]
        return first

    def copy(self, schema: str, table: str, rows: pa.Table) -> None:
        """Copy all rows into the table, in one transaction."""
        with closing(adbc.AdbcStatement(self.session)) as prepared:
            where = {
                StatementOptions.INGEST_TARGET_TABLE.value: table,
                StatementOptions.INGEST_TARGET_DB_SCHEMA.value: schema,
            }
            prepared.set_options(**_APPEND, **where)
            prepared.bind_stream(rows)
            prepared.execute_update()

    def close(self) -> None:
        self.session.close()
        self.database.close()


_connections: dict[str, Connection] = {}


def connection(conninfo: str) -> Connection:
    if conninfo not in _connections:
        database = adbc_driver_postgresql.connect(conninfo)
        opened = Connection(database, adbc.AdbcConnection(database))
        opened.row(sql.query("session_range_reader"))
        _connections[conninfo] = opened
        _settle()
    return _connections[conninfo]


def _settle() -> None:
    """Spark collects garbage after each task. What a worker has imported by now stays: to look
    through it each time took a tenth of the time of a read."""
    if TaskContext.get() is not None:
        gc.freeze()


def forget(conninfo: str) -> None:
    """A connection that has failed is not used again."""
    if broken := _connections.pop(conninfo, None):
        broken.close()
