"""Read a range of the log on an executor: a binary COPY that arrives as Arrow batches.

Batches come in order, so that a read that loses its server continues after the last one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import adbc_driver_manager as adbc
import pyarrow as pa
import pyarrow.compute as pc
from psycopg.sql import Identifier, Literal

from milepost import db, log, sql
from milepost.errors import BeyondHorizon, UnreadableMessage
from milepost.pipeline.names import COLUMNS
from milepost.pipeline.source import executor_connection
from milepost.records import Position
from milepost.runtime import Patience, is_server_lost

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from milepost.pipeline.source.executor_connection import Connection
    from milepost.pipeline.source.options import SourceOptions
    from milepost.pipeline.source.ranges import Range

_ARROW_TYPES = {
    "bigint": pa.int64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_TIME, _LAST_TIME, _EPOCHS_APART = (
    (time.replace(tzinfo=UTC) - _UNIX_EPOCH) // timedelta(microseconds=1)
    for time in (datetime.min, datetime.max, datetime(2000, 1, 1, tzinfo=UTC))
)
_PLACE = ("transaction_id", "position")
_PARAMETER = re.compile(rb"%\((\w+)\)s")


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads ranges of one log. Sent to executors as a whole."""

    options: SourceOptions

    def batches(self, range_: Range) -> Iterator[pa.RecordBatch]:
        """The messages of the range, in order. Survives a restart of the server."""
        patience = Patience(self.options.retry_seconds)
        while True:
            try:
                for batch in self._attempt(range_):
                    range_ = replace(range_, after=_last_position(batch))
                    patience.went_well()
                    yield self._wanted(batch)
            except (adbc.Error, OSError) as error:
                executor_connection.forget(self.options.conninfo)
                if not is_server_lost(error):
                    self._explain(range_)
                patience.wait_or_raise(error)
            else:
                return

    def _attempt(self, range_: Range) -> Iterator[pa.RecordBatch]:
        if range_.is_empty:
            return
        connection = executor_connection.connection(self.options.conninfo)
        self._check_horizon(connection, range_)
        yield from connection.stream(self._statement(range_))

    def _check_horizon(self, connection: Connection, range_: Range) -> None:
        """The driver planned the range below a horizon. A server with a lower one is another,
        perhaps a standby. A log that cannot be read is refused here too."""
        row = connection.row(sql.query("horizon", self.options.schema))
        horizon = Position(row["transaction_id"], row["position"])
        if horizon < range_.last:
            raise BeyondHorizon(range_.last, horizon)

    def _explain(self, range_: Range) -> None:
        """Ask again through psycopg: errors of Arrow's streams have no SQLSTATE. Raises our error,
        if there is one for it."""
        schema = self.options.schema
        with db.connect(self.options.conninfo) as conn, db.translated(schema, "read", conn):
            log.horizon(conn, schema)
            conn.execute(sql.query("range_rows", schema), range_.parameters())

    def _statement(self, range_: Range) -> str:
        names = (*_PLACE, *(name for name in self.options.columns if name not in _PLACE))
        columns = ", ".join(Identifier("m", name).as_string() for name in names)
        text = sql.query("range_read", self.options.schema).replace(b"{columns}", columns.encode())
        return with_literals(text, range_.parameters() | self.options.conditions.parameters())

    def _wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The requested columns, in plain types: json arrives as an extension type."""
        columns = self.options.columns
        if "recorded_at" in columns:
            refuse_odd_times(batch)
        arrays = [_plain(batch.column(name)) for name in columns]
        types = [(name, _ARROW_TYPES[COLUMNS[name]]) for name in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(types))


def with_literals(query: bytes, parameters: Mapping[str, Any]) -> str:
    """The query with its parameters as literals: ADBC copies only queries without parameters."""
    return _PARAMETER.sub(
        lambda found: Literal(parameters[found[1].decode()]).as_bytes(), query
    ).decode()


def refuse_odd_times(batch: pa.RecordBatch) -> None:
    """Spark's times are in the years 1 to 9999, like Python's. An infinite time would arrive as
    another one: the driver adds the difference of the epochs to it."""
    times = batch.column("recorded_at").cast(pa.int64())
    limits = pc.min_max(times).as_py()
    if limits["min"] is None or (limits["min"] >= _FIRST_TIME and limits["max"] <= _LAST_TIME):
        return
    is_odd = pc.or_(pc.less(times, _FIRST_TIME), pc.greater(times, _LAST_TIME))
    row = pc.index(is_odd, value=True).as_py()
    transaction_id, position = (batch.column(name)[row].as_py() for name in _PLACE)
    since_2000 = (times[row].as_py() - _EPOCHS_APART + 2**63) % 2**64 - 2**63
    raise UnreadableMessage(
        Position(transaction_id, position), f"it was recorded at {log.time_text(since_2000)}"
    )


def _last_position(batch: pa.RecordBatch) -> Position:
    transaction_id, position = (batch.column(name)[-1].as_py() for name in _PLACE)
    return Position(transaction_id, position)


def _plain(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array
