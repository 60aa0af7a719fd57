"""Reading a range of the log on an executor: a binary COPY that arrives as Arrow batches.

Batches come in order, so that a read which loses its server goes on behind the last one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import adbc_driver_manager as adbc
import pyarrow as pa
import pyarrow.compute as pc
from psycopg.sql import Identifier, Literal

from milepost import db, log, sql
from milepost.errors import BeyondHorizon, UnreadableMessage
from milepost.pipeline import connections
from milepost.pipeline.patience import Patience, is_server_lost
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from milepost.pipeline.connections import Connection
    from milepost.pipeline.filters import Conditions
    from milepost.pipeline.ranges import Range

ARROW_TYPES: Mapping[str, pa.DataType] = {
    "transaction_id": pa.int64(),
    "position": pa.int64(),
    "id": pa.string(),
    "topic": pa.string(),
    "key": pa.string(),
    "type": pa.string(),
    "data": pa.string(),
    "metadata": pa.string(),
    "recorded_at": pa.timestamp("us", tz="UTC"),
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
    """Reads ranges of one log. Sent to executors as a whole, hence no URL in its repr."""

    conninfo: str = field(repr=False)
    schema: str
    columns: tuple[str, ...]
    retry_seconds: float

    def __repr__(self) -> str:
        return f"RangeReader(schema={self.schema!r}, columns={self.columns!r})"

    def batches(self, range_: Range, conditions: Conditions) -> Iterator[pa.RecordBatch]:
        """The messages of the range, in order. Survives a restart of the server in between."""
        patience = Patience(self.retry_seconds)
        while True:
            try:
                for batch in self._attempt(range_, conditions):
                    range_ = replace(range_, after=_last_position(batch))
                    patience.went_well()
                    yield self._wanted(batch)
            except (adbc.Error, OSError) as error:
                connections.forget(self.conninfo)
                if not is_server_lost(error):
                    self._explain(range_)
                patience.wait_or_raise(error)
            else:
                return

    def _attempt(self, range_: Range, conditions: Conditions) -> Iterator[pa.RecordBatch]:
        if range_.is_empty:
            return
        connection = connections.connection(self.conninfo)
        self._check_horizon(connection, range_)
        yield from connection.stream(self._statement(range_, conditions))

    def _check_horizon(self, connection: Connection, range_: Range) -> None:
        """The driver took the range from a horizon. A server that has not come so far is another
        one, perhaps a standby; and what refuses to be read refuses here too."""
        row = connection.row(sql.query("horizon", self.schema))
        horizon = Position(row["transaction_id"], row["position"])
        if horizon < range_.last:
            raise BeyondHorizon(range_.last, horizon)

    def _explain(self, range_: Range) -> None:
        """Ask again where an error carries its code: Arrow's streams bring the text alone. Raises
        ours if it is one of ours."""
        with db.connect(self.conninfo) as conn, db.translated(self.schema, "read", conn):
            log.horizon(conn, self.schema)
            conn.execute(sql.query("range_rows", self.schema), range_.parameters())

    def _statement(self, range_: Range, conditions: Conditions) -> str:
        names = (*_PLACE, *(name for name in self.columns if name not in _PLACE))
        columns = ", ".join(Identifier("m", name).as_string() for name in names)
        text = sql.query("range_read", self.schema).replace(b"{columns}", columns.encode())
        return with_literals(text, range_.parameters() | conditions.parameters())

    def _wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns asked for, in plain types: json arrives as an extension of text."""
        if "recorded_at" in self.columns:
            refuse_odd_times(batch)
        arrays = [_plain(batch.column(name)) for name in self.columns]
        types = [pa.field(name, ARROW_TYPES[name]) for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(types))


def with_literals(query: bytes, parameters: Mapping[str, Any]) -> str:
    """The query with its parameters written into it: ADBC copies only what has none."""
    return _PARAMETER.sub(
        lambda found: Literal(parameters[found[1].decode()]).as_bytes(), query
    ).decode()


def refuse_odd_times(batch: pa.RecordBatch) -> None:
    """Spark's times are those of the years 1 to 9999, as Python's. An infinite one would even
    arrive as some other: the driver adds the distance of the epochs to it."""
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
