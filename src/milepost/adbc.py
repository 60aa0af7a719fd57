"""A connection that reads and writes Arrow batches by COPY, to move many rows.

ADBC is used without its DB-API, which imports pandas if it is installed: half a second at the
start of each process. Nothing imports this module unless it is needed: the driver is an extra.
"""

from __future__ import annotations

import re
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import adbc_driver_manager as adbc
import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager import StatementOptions
from adbc_driver_postgresql import StatementOptions as PostgresOptions
from psycopg.sql import Literal

from milepost import sql

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

Error = adbc.Error  # what a lost or refusing server raises here

_BATCH_BYTES = str(4 * 1024 * 1024)
_APPEND = {StatementOptions.INGEST_MODE.value: "adbc.ingest.mode.append"}
# The driver's errors end with the whole query.
_QUERY = re.compile(r"\s*Query was: .*?(?=\. SQLSTATE: \w+$|$)", re.DOTALL)
_PARAMETER = re.compile(rb"%\((\w+)\)s")


@dataclass(frozen=True, slots=True)
class Connection:
    """In autocommit mode, the default of the driver."""

    database: adbc.AdbcDatabase
    session: adbc.AdbcConnection
    is_pooled: bool = False

    def stream(self, statement: str) -> Generator[pa.RecordBatch, None, None]:
        """The rows, as the server sends them. Through a pooler, in one transaction: the driver
        prepares the query first, and the next statement might run in another session."""
        if not self.is_pooled:
            yield from self._stream(statement)
            return
        self.session.set_autocommit(False)
        self.row(_settings(is_local=True))
        yield from self._stream(statement)
        self.session.rollback()
        self.session.set_autocommit(True)

    def _stream(self, statement: str) -> Generator[pa.RecordBatch, None, None]:
        with _shortened(), closing(adbc.AdbcStatement(self.session)) as prepared:
            prepared.set_options(**{PostgresOptions.BATCH_SIZE_HINT_BYTES.value: _BATCH_BYTES})
            prepared.set_sql_query(statement)
            handle, _ = prepared.execute_query()
            with pa.RecordBatchReader.from_stream(handle) as reader:
                yield from reader

    def row(self, query: bytes) -> dict[str, Any]:
        rows = pa.Table.from_batches(list(self._stream(query.decode()))).to_pylist()
        first: dict[str, Any] = rows[0]
        return first

    def copy(self, schema: str, table: str, rows: pa.Table) -> None:
        """Copy all rows into the table, in one transaction."""
        with _shortened(), closing(adbc.AdbcStatement(self.session)) as prepared:
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


@contextmanager
def _shortened() -> Iterator[None]:
    """Errors without the query, which is ours: tens of lines in a log."""
    try:
        yield
    except adbc.Error as error:
        error.args = (_QUERY.sub("", str(error)), *error.args[1:])
        raise


def connect(conninfo: str, *, is_pooled: bool = False) -> Connection:
    """For reading long ranges of the log in order, and for copying."""
    database = adbc_driver_postgresql.connect(conninfo)
    opened = Connection(database, adbc.AdbcConnection(database), is_pooled)
    if not is_pooled:
        opened.row(_settings(is_local=False))
    return opened


def _settings(*, is_local: bool) -> bytes:
    return with_literals(sql.query("session_range_reader"), {"is_local": is_local}).encode()


def with_literals(query: bytes, parameters: Mapping[str, Any]) -> str:
    """The query with its parameters as literals: ADBC copies only queries without parameters."""
    return _PARAMETER.sub(
        lambda found: Literal(parameters[found[1].decode()]).as_bytes(), query
    ).decode()


def plain(array: pa.Array) -> pa.Array:
    """In a plain type: json arrives as an extension type."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array
