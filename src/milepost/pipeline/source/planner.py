"""What the driver asks the log: where a read starts, how far it may go, how to divide it.

Never further than the horizon, and never to a horizon that no message has reached: in transaction
order it moves with every transaction of the cluster, and each move would be an empty batch.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from milepost import db, log, sql
from milepost.checkpoints import CheckpointKey, PostgresCheckpointStore
from milepost.errors import BeyondHorizon
from milepost.pipeline.source import ranges
from milepost.pipeline.source.ranges import Extent, Range
from milepost.records import Position
from milepost.runtime import Patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from milepost.db import Connection
    from milepost.pipeline.source.options import SourceOptions

Answer = TypeVar("Answer")

_WORDS: dict[str, log.Start] = {"earliest": "beginning", "latest": "end"}
# The whole log is not searched for a rare selection before the first batch.
_LEAST_WALK = 1_000_000
_WALK_FACTOR = 10
# If nearly everything is selected, the same is assumed for some more batches.
_DENSE = 0.9
_TRUSTED = 9


@dataclass(slots=True)
class Planner:
    """In a process of the driver. Connects when it is first asked."""

    options: SourceOptions
    _conn: Connection | None = field(default=None, init=False, repr=False)
    _has_connected: bool = field(default=False, init=False)
    _dense_for: int = field(default=0, init=False)  # batches

    def start(self) -> Position:
        """The position after which to read."""
        start, schema = self.options.start, self.options.schema
        if isinstance(start, CheckpointKey):
            stored = self._ask(lambda conn: PostgresCheckpointStore(conn, schema).load(start))
            return stored.position if stored else Position.BEGINNING
        place: log.Start = _WORDS[start] if isinstance(start, str) else start
        found = self._ask(lambda conn: log.start_position(conn, place, schema))
        self._refuse_beyond(found, self.horizon())
        return found

    def end(self) -> Position:
        """The last position that a batch reads."""
        horizon, end = self.horizon(), self.options.end
        if end == "latest":
            return horizon
        if isinstance(end, datetime):
            return self._ask(lambda conn: log.start_position(conn, end, self.options.schema))
        self._refuse_beyond(end, horizon)
        return end

    def horizon(self) -> Position:
        """The last message below which nothing can appear any more, selected or not."""
        return self._ask(lambda conn: log.horizon(conn, self.options.schema).position)

    def reach(self, after: Position, newest: Position, max_count: int | None) -> Position:
        """How far to read: to the newest, or to the end of `max_count` selected messages."""
        if newest <= after:
            self._refuse_beyond(after, self.horizon())
            return after
        if max_count is None:
            return newest
        rows = self._limit(Range(after, newest), max_count)
        return Position(*rows[0]) if rows else newest

    def ranges(self, after: Position, newest: Position, max_count: int) -> Iterator[Range]:
        """Ranges of at most `max_count` selected messages each, planned one by one."""
        while after < newest:
            end = self.reach(after, newest, max_count)
            yield Range(after, end)
            after = end

    def split(self, range_: Range) -> list[Range]:
        """The range in parts, one for each task. None if it is empty."""
        narrowed = self._narrowed(range_)
        extent = self._extent(narrowed)
        if extent is None:
            return []
        parts = self.options.partitions or ranges.parts_for(
            extent.about, self.options.messages_per_partition
        )
        # To the last message: the server of an executor may not have reached the horizon.
        return ranges.split(replace(narrowed, last=extent.last), extent, parts, self._probe)

    def split_for_tasks(self, range_: Range) -> list[Range]:
        """At least one part, which may be empty: Spark reads no parts as one without bounds."""
        return self.split(range_) or [Range(range_.after, range_.after)]

    def about(self, range_: Range) -> int:
        """About how many messages a range contains, selected or not."""
        extent = self._extent(range_)
        return 0 if extent is None else extent.about

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _extent(self, range_: Range) -> Extent | None:
        """None if there are no messages in the range."""
        rows = [] if range_.is_empty else self._query("range_rows", range_.parameters())
        if not rows:
            return None
        return ranges.extent(Position(*rows[0][:2]), Position(*rows[0][2:]), self._probe)

    def _limit(self, range_: Range, max_count: int) -> list[Any]:
        """So many messages never contain more selected ones, and the index alone finds them. So the
        selected ones are counted only if they may be few."""
        conditions = self.options.conditions
        parameters = range_.parameters() | {"max_count": max_count}
        is_all = conditions.topics is None and conditions.types is None
        if is_all or self._dense_for > 0:
            self._dense_for -= 1
            return self._query("range_nth", parameters)
        selected = conditions.parameters()
        parameters |= {name: selected[name] for name in ("topics", "types")}
        parameters["max_walked"] = max(_LEAST_WALK, _WALK_FACTOR * max_count)
        rows = self._query("range_limit", parameters)
        if rows and max_count >= _DENSE * Range(range_.after, Position(*rows[0])).width:
            self._dense_for = _TRUSTED
        return rows

    def _narrowed(self, range_: Range) -> Range:
        """What filters on position or time leave of a range. A time limits only its start:
        recorded_at does not always rise with the position."""
        conditions = self.options.conditions
        time = conditions.recorded_from
        if time is not None:
            found = self._ask(lambda conn: log.start_position(conn, time, self.options.schema))
            range_ = replace(range_, after=max(range_.after, found))
        return ranges.narrowed(
            range_,
            (conditions.min_transaction_id, conditions.max_transaction_id),
            (conditions.min_position, conditions.max_position),
        )

    def _probe(self, transaction_ids: Sequence[int]) -> list[Position]:
        rows = self._query("range_probe", {"transaction_ids": list(transaction_ids)})
        return [Position(*row) for row in rows]

    def _query(self, name: str, parameters: dict[str, Any]) -> list[Any]:
        query = sql.query(name, self.options.schema)
        return self._ask(lambda conn: conn.execute(query, parameters).fetchall())

    def _ask(self, question: Callable[[Connection], Answer]) -> Answer:
        """Asks again after a restart of the server, but only if it was connected before."""
        patience = Patience(self.options.retry_seconds)
        while True:
            try:
                with (
                    db.acting(self.options.conninfo, "read"),
                    db.translated(self.options.schema),
                ):
                    return question(self._connected())
            except psycopg.OperationalError as error:
                with suppress(psycopg.Error):
                    self.close()
                if not self._has_connected:
                    raise
                patience.wait_or_raise(error)

    def _connected(self) -> Connection:
        if self._conn is None:
            self._conn = db.connect(self.options.conninfo)
            db.check_schema(self._conn, self.options.schema)
            self._has_connected = True
        return self._conn

    def _refuse_beyond(self, position: Position, horizon: Position) -> None:
        if position > horizon:
            raise BeyondHorizon(position, horizon)
