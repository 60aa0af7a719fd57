"""Read a range of the log on an executor: a file of the archive, or a binary COPY of the table that
arrives as Arrow batches.

Batches come in order, so that a read that loses its server, or its file, continues after the last
one. What was removed from the table meanwhile is in a file. A file that was replaced has another
name, which the manifest knows. A file that cannot be read does not matter as long as the rows are
still in the table.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from psycopg.sql import Identifier

from milepost import adbc, db, log, sql
from milepost.errors import ArchiveFileError, BeyondHorizon, RangeRemoved, UnreadableMessage
from milepost.log.history import files_between
from milepost.pipeline.names import COLUMNS, PLACE
from milepost.pipeline.source import archived, executor_connection
from milepost.pipeline.source.parts import Part, cut
from milepost.records import Position
from milepost.runtime import Patience, is_server_lost

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from milepost.adbc import Connection
    from milepost.log.history import ArchivedFile
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


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads ranges of one log. Sent to executors as a whole."""

    options: SourceOptions

    def batches(self, range_: Range, file: ArchivedFile | None = None) -> Iterator[pa.RecordBatch]:
        """The messages of the range, in order, from the file if it has one."""
        parts = deque([Part(range_, file)])
        unreadable: dict[str, ArchiveFileError] = {}  # by the name of the file
        while parts:
            part = parts.popleft()
            try:
                for batch in self._of(part):
                    part = part.after(_last_position(batch))
                    yield self._wanted(batch)
            except ArchiveFileError as error:
                unreadable[part.name] = error
                parts.extendleft(reversed(self._elsewhere(part, unreadable)))
            except RangeRemoved as error:
                parts.extendleft(reversed(self._in_archive(part, unreadable, error)))

    def _of(self, part: Part) -> Iterator[pa.RecordBatch]:
        if part.file is not None:
            return archived.batches(part, self.options.conditions, self.options.columns)
        rows = self.rows(part.range)
        return map(refuse_odd_times, rows) if "recorded_at" in self.options.columns else rows

    def _elsewhere(self, part: Part, unreadable: Mapping[str, object]) -> list[Part]:
        """The same range, without the files that cannot be read."""
        schema, range_ = self.options.schema, part.range
        with db.connect(self.options.conninfo) as conn, db.translated(schema, "read", conn):
            files = files_between(conn, schema, range_.after, range_.last)
        return cut(range_, [file for file in files if file.name not in unreadable])

    def _in_archive(
        self, part: Part, unreadable: Mapping[str, ArchiveFileError], error: RangeRemoved
    ) -> list[Part]:
        """What was removed from the table is in the archive, or gone."""
        parts = self._elsewhere(part, {})
        first = parts[0] if parts else part
        if first.file is None:
            raise error
        if first.name in unreadable:
            raise unreadable[first.name] from error
        return parts

    def rows(self, range_: Range) -> Generator[pa.RecordBatch]:
        """As the table has them, in order. Survives a restart of the server."""
        patience = Patience(self.options.retry_seconds)
        while True:
            try:
                for batch in self._attempt(range_):
                    range_ = replace(range_, after=_last_position(batch))
                    patience.went_well()
                    yield batch
            except GeneratorExit:  # nobody wants the rest, which the server still sends
                executor_connection.forget(self.options.conninfo)
                raise
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
        names = (*PLACE, *(name for name in self.options.columns if name not in PLACE))
        columns = ", ".join(Identifier("m", name).as_string() for name in names)
        text = sql.query("range_read", self.options.schema).replace(b"{columns}", columns.encode())
        return adbc.with_literals(text, range_.parameters() | self.options.conditions.parameters())

    def _wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The requested columns, in plain types."""
        columns = self.options.columns
        arrays = [adbc.plain(batch.column(name)) for name in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, _ARROW_TYPES[COLUMNS[name]]) for name in columns])


def refuse_odd_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, unless it has times that Spark lacks: its times are in the years 1 to 9999, like
    Python's. An infinite time would arrive as another one: the driver adds the difference of the
    epochs to it."""
    times = batch.column("recorded_at").cast(pa.int64())
    limits = pc.min_max(times).as_py()
    if limits["min"] is None or (limits["min"] >= _FIRST_TIME and limits["max"] <= _LAST_TIME):
        return batch
    is_odd = pc.or_(pc.less(times, _FIRST_TIME), pc.greater(times, _LAST_TIME))
    row = pc.index(is_odd, value=True).as_py()
    transaction_id, position = (batch.column(name)[row].as_py() for name in PLACE)
    since_2000 = (times[row].as_py() - _EPOCHS_APART + 2**63) % 2**64 - 2**63
    raise UnreadableMessage(
        Position(transaction_id, position), f"it was recorded at {log.time_text(since_2000)}"
    )


def _last_position(batch: pa.RecordBatch) -> Position:
    transaction_id, position = (batch.column(name)[-1].as_py() for name in PLACE)
    return Position(transaction_id, position)
