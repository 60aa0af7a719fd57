"""What the driver asks the log: where a read begins, how far it may go, how to share it out.

Never further than the horizon, and never to a horizon that no message has reached: in
transaction order it moves with every transaction of the cluster, and each of those moves would
be an empty batch.
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
from milepost.pipeline import ranges
from milepost.pipeline.patience import Patience
from milepost.pipeline.ranges import Range
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from milepost.db import Connection
    from milepost.pipeline.filters import Conditions
    from milepost.pipeline.options import SourceOptions

Answer = TypeVar("Answer")

_WORDS: dict[str, log.Start] = {"earliest": "beginning", "latest": "end"}
# A rare selection is not searched for through the whole log before the first batch.
_LEAST_WALK = 1_000_000
_WALK_FACTOR = 10
# A selection of nearly everything is trusted to go on so for some batches.
_DENSE = 0.9
_TRUSTED = 9


@dataclass(slots=True)
class Planner:
    """Lives in a process of the driver. Opens its connection when first asked."""

    options: SourceOptions
    _conn: Connection | None = field(default=None, init=False, repr=False)
    _has_connected: bool = field(default=False, init=False)
    _dense_for: int = field(default=0, init=False)  # batches

    def start(self) -> Position:
        """After which to read."""
        start = self.options.start
        if isinstance(start, CheckpointKey):
            return self._ask(lambda conn: self._checkpoint(conn, start))
        place: log.Start = _WORDS[start] if isinstance(start, str) else start
        found = self._ask(lambda conn: log.start_position(conn, place, self.options.schema))
        self._refuse_beyond(found, self.horizon())
        return found

    def end(self) -> Position:
        """Up to which a batch reads, this one included."""
        horizon, end = self.horizon(), self.options.end
        if end == "latest":
            return horizon
        if isinstance(end, datetime):
            return self._ask(lambda conn: log.start_position(conn, end, self.options.schema))
        self._refuse_beyond(end, horizon)
        return end

    def horizon(self) -> Position:
        """The last message below which nothing can appear any more, whoever it is for."""
        return self._ask(lambda conn: log.horizon(conn, self.options.schema).position)

    def reach(self, after: Position, newest: Position, max_count: int | None) -> Position:
        """How far to read: to the newest, or as far as `max_count` selected messages go."""
        if newest <= after:
            self._refuse_beyond(after, self.horizon())
            return after
        if max_count is None:
            return newest
        rows = self._limit(Range(after, newest), max_count)
        return Position(*rows[0]) if rows else newest

    def ranges(self, after: Position, newest: Position, max_count: int) -> Iterator[Range]:
        """From one to the other, so many selected messages at once, each when it is asked for."""
        while after < newest:
            end = self.reach(after, newest, max_count)
            yield Range(after, end)
            after = end

    def split(self, range_: Range, conditions: Conditions) -> list[Range]:
        """The range in parts, one for each task; none if it is empty."""
        narrowed = self._narrowed(range_, conditions)
        rows = [] if narrowed.is_empty else self._query("range_rows", narrowed.parameters())
        if not rows:
            return []
        first, last = Position(*rows[0][:2]), Position(*rows[0][2:])
        extent = ranges.extent(first, last, self._probe)
        parts = self.options.partitions or ranges.parts_for(
            extent.about, self.options.messages_per_partition
        )
        # To the last message, so that executors need not have come as far as the horizon.
        return ranges.split(replace(narrowed, last=last), extent, parts, self._probe)

    def split_for_tasks(self, range_: Range, conditions: Conditions) -> list[Range]:
        """At least one part, if need be an empty one: Spark takes none for 'one without bounds'."""
        return self.split(range_, conditions) or [Range(range_.after, range_.after)]

    def about(self, range_: Range) -> int:
        """How many messages a range may hold, whoever they are for: an estimate."""
        rows = [] if range_.is_empty else self._query("range_rows", range_.parameters())
        if not rows:
            return 0
        return ranges.extent(Position(*rows[0][:2]), Position(*rows[0][2:]), self._probe).about

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _checkpoint(self, conn: Connection, key: CheckpointKey) -> Position:
        found = PostgresCheckpointStore(conn, self.options.schema).load(key)
        return found.position if found else Position.BEGINNING

    def _limit(self, range_: Range, max_count: int) -> list[Any]:
        """So many messages, whoever they are for, never hold more selected ones, and are found in
        the index alone. So the selected ones are counted only where they may be few."""
        conditions = self.options.conditions
        parameters = range_.parameters() | {"max_count": max_count}
        is_all = conditions.topics is None and conditions.types is None
        if is_all or self._dense_for > 0:
            self._dense_for -= 1
            return self._query("range_nth", parameters)
        texts = {"topics": conditions.topics, "types": conditions.types}
        rows = self._query(
            "range_limit",
            parameters
            | {name: None if found is None else sorted(found) for name, found in texts.items()}
            | {"max_walked": max(_LEAST_WALK, _WALK_FACTOR * max_count)},
        )
        if rows and max_count >= _DENSE * Range(range_.after, Position(*rows[0])).width:
            self._dense_for = _TRUSTED
        return rows

    def _narrowed(self, range_: Range, conditions: Conditions) -> Range:
        """What a filter on position or time leaves of a range. The beginning alone follows the
        time: recorded_at does not rise with the position everywhere."""
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
        """Asks again after a restart of the server, but not of one that was never there."""
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


def vars_of(position: Position) -> dict[str, Any]:
    return {"transaction_id": position.transaction_id, "position": position.position}
