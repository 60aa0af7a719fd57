"""What the driver asks the log: where a read starts, how far it may go, how to divide it.

Never further than the horizon, and never to a horizon that no message has reached: in transaction
order it moves with every transaction of the cluster, and each move would be an empty batch.

What is archived is counted and divided by the manifest and the files, the rest by the table. If
messages are archived and removed meanwhile, it plans again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from milepost import db, log, sql
from milepost.checkpoints import CheckpointKey, PostgresCheckpointStore
from milepost.errors import (
    ArchiveFileError,
    BeyondHorizon,
    NotPermitted,
    RangeRemoved,
    StartAfterEnd,
)
from milepost.log.history import ArchivedFile, file_after, files_between
from milepost.pipeline.source import archived, ranges
from milepost.pipeline.source.parts import Part, cut, may_hold
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


class _Changed(Exception):
    """What was to be counted in the table was removed since, or a file was replaced."""


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
        self.refuse_beyond(found)
        return found

    def end(self) -> Position:
        """The last position that a batch reads."""
        horizon, end = self.horizon(), self.options.end
        if end == "latest":
            return horizon
        if isinstance(end, datetime):
            return self._ask(lambda conn: log.start_position(conn, end, self.options.schema))
        self.refuse_beyond(end, horizon)
        return end

    def batch_range(self) -> Range:
        """What a batch reads. Its start may be above its end only if it is somebody's checkpoint:
        then there is nothing left to read."""
        start = self.start()  # first: what is appended meanwhile must not be before it
        end = self.end()
        if start > end and not isinstance(self.options.start, CheckpointKey):
            raise StartAfterEnd(start, end)
        return Range(start, max(start, end))

    def horizon(self) -> Position:
        """The last message below which nothing can appear any more, selected or not."""
        return self._ask(lambda conn: log.horizon(conn, self.options.schema).position)

    def refuse_beyond(self, position: Position, horizon: Position | None = None) -> None:
        """Raises for a position that the log has not reached: it is of another log."""
        horizon = horizon or self.horizon()
        if position > horizon:
            raise BeyondHorizon(position, horizon)

    def reach(self, after: Position, newest: Position, max_count: int | None) -> Position:
        """How far to read: to the newest, or to the end of at most `max_count` selected messages.
        If files of the archive have at least half of these, it ends with the last of them."""
        if newest <= after:
            self.refuse_beyond(after)
            return after
        if max_count is None:
            return newest
        return self._again(lambda: self._reach(Range(after, newest), max_count))

    def ranges(
        self, after: Position, newest: Position, max_count: int | Callable[[], int]
    ) -> Iterator[Range]:
        """Ranges of at most `max_count` selected messages each, planned one by one."""
        while after < newest:
            count = max_count if isinstance(max_count, int) else max_count()
            end = self.reach(after, newest, count)
            yield Range(after, end)
            after = end

    def cut(self, range_: Range) -> list[Part]:
        """What each file has of a range, and what only the table has. Without files that have
        nothing of what is selected."""
        narrowed = self._narrowed(range_)
        return [] if narrowed.is_empty else self._cut(narrowed)

    def divided(self, parts: Sequence[Part], cores: int | None = None) -> list[Part]:
        """One part for each task, and about one task for each core. Without `cores`, of the size in
        the options. Without those that are empty."""
        while True:
            try:
                return self._divided(parts, cores)
            except _Changed:
                again = [self._cut(p.range) if p.file is None else [p] for p in parts]
                parts = [part for found in again for part in found]

    def split(self, range_: Range) -> list[Part]:
        """The range in parts, one for each task. None if it is empty."""
        return self.divided(self.cut(range_))

    def split_for_tasks(self, range_: Range) -> list[Part]:
        """At least one part, which may be empty: Spark reads no parts as one without bounds."""
        return self.split(range_) or [Part(Range(range_.after, range_.after))]

    def about(self, range_: Range) -> int:
        """About how many messages a range contains, selected or not."""
        return sum(self.located(range_))

    def located(self, range_: Range) -> tuple[int, int]:
        """About how many messages of a range files have, and how many only the table has, selected
        or not."""
        return (0, 0) if range_.is_empty else self._again(lambda: self._located(range_))

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _located(self, range_: Range) -> tuple[int, int]:
        number, *ends = self._in_archive(range_)
        outside = [range_]
        if number is not None:
            begin, end = Position(*ends[:2]), Position(*ends[2:])
            outside = [Range(range_.after, begin), Range(max(range_.after, end), range_.last)]
        extents = [self._extent(each) for each in outside]
        return number or 0, sum(extent.about for extent in extents if extent is not None)

    def _in_archive(self, range_: Range) -> Sequence[Any]:
        schema, parameters = self.options.schema, range_.parameters()
        return self._ask_manifest(
            lambda conn: db.fetch_one(conn, schema, "archive_extent", **parameters), [None]
        )

    def _cut(self, range_: Range) -> list[Part]:
        schema, (after, last) = self.options.schema, (range_.after, range_.last)
        none: list[ArchivedFile] = []
        files = self._ask_manifest(lambda conn: files_between(conn, schema, after, last), none)
        conditions = self.options.conditions
        return [p for p in cut(range_, files) if p.file is None or may_hold(p.file, conditions)]

    def _divided(self, parts: Sequence[Part], cores: int | None) -> list[Part]:
        measured = [(part, *self._measured(part)) for part in parts]
        total = sum(about for _, _, about in measured)
        found: list[Part] = []
        for part, extent, about in measured:
            if about:
                found += self._divided_part(part, extent, self._tasks(about, total, cores))
        return found

    def _measured(self, part: Part) -> tuple[Extent | None, int]:
        """About how many messages it has."""
        if part.file is None:
            extent = self._extent(part.range)
            return extent, 0 if extent is None else extent.about
        messages = part.file.messages
        return None, messages if part.is_whole else max(1, min(part.range.width, messages))

    def _tasks(self, about: int, total: int, cores: int | None) -> int:
        """How many read so many messages."""
        wanted = self.options.partitions
        if wanted is None and cores is None:
            return ranges.parts_for(about, self.options.messages_per_partition)
        if wanted is None:
            wanted = ranges.parts_among(total, cores or 1)
        return max(1, round(wanted * about / total))

    def _divided_part(self, part: Part, extent: Extent | None, tasks: int) -> list[Part]:
        if extent is not None:
            # To the last message: the server of an executor may not have reached the horizon.
            range_ = replace(part.range, last=extent.last)
            return [Part(each) for each in ranges.split(range_, extent, tasks, self._probe)]
        try:
            return archived.divided(part, self.options.conditions, tasks)
        except ArchiveFileError:
            return [part]  # executors may reach it, or find the rows in the table

    def _extent(self, range_: Range) -> Extent | None:
        """None if there are no messages in the range. It is not archived."""
        rows = [] if range_.is_empty else self._in_table("range_rows", range_.parameters())
        if not rows:
            return None
        return ranges.extent(Position(*rows[0][:2]), Position(*rows[0][2:]), self._probe)

    def _reach(self, range_: Range, max_count: int) -> Position:
        after, left = range_.after, max_count
        walk = max(_LEAST_WALK, _WALK_FACTOR * max_count)
        while after < range_.last and walk > 0:
            file = self._file_after(after)
            if file is None:
                return after if 2 * left <= max_count else self._limit(after, range_, left, walk)
            part = Part(Range(after, min(file.last, range_.last)), file)
            try:
                counted = archived.count(part, self.options.conditions, left, walk)
            except ArchiveFileError as error:
                return self._limit_without(error, part, range_, left, walk)
            if counted.last is not None:
                is_enough = 2 * left <= max_count and counted.last < part.range.last
                return after if is_enough else counted.last
            after, left, walk = part.range.last, left - counted.selected, walk - counted.walked
        return after

    def _limit_without(
        self, error: ArchiveFileError, part: Part, range_: Range, max_count: int, walk: int
    ) -> Position:
        """The driver cannot read a file. It may have been replaced by another one, or the messages
        may still be in the table."""
        after = part.range.after
        if self._file_after(after) != part.file:
            raise _Changed
        try:
            return self._limit(after, range_, max_count, walk)
        except _Changed:
            raise error from None

    def _limit(self, after: Position, range_: Range, max_count: int, walk: int) -> Position:
        """In the table. So many messages never contain more selected ones, and the index alone
        finds them. So the selected ones are counted only if they may be few."""
        conditions, range_ = self.options.conditions, replace(range_, after=after)
        parameters = range_.parameters() | {"max_count": max_count}
        is_all = conditions.topics is None and conditions.types is None
        if is_all or self._dense_for > 0:
            self._dense_for -= 1
            rows = self._in_table("range_nth", parameters)
            return Position(*rows[0]) if rows else range_.last
        selected = conditions.parameters()
        parameters |= {name: selected[name] for name in ("topics", "types")}
        parameters["max_walked"] = walk
        rows = self._in_table("range_limit", parameters)
        if not rows:
            return range_.last
        end = Position(*rows[0])
        if max_count >= _DENSE * Range(after, end).width:
            self._dense_for = _TRUSTED
        return end

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
        if len(rows) < len(transaction_ids):
            raise _Changed  # there was a message for each of them
        return [Position(*row) for row in rows]

    def _in_table(self, name: str, parameters: dict[str, Any]) -> list[Any]:
        """For a range that was not archived when the manifest was read."""
        try:
            return self._query(name, parameters)
        except RangeRemoved:
            after = Position(parameters["after_transaction_id"], parameters["after_position"])
            if self._file_after(after) is None:
                raise
            raise _Changed from None

    def _again(self, question: Callable[[], Answer]) -> Answer:
        while True:
            try:
                return question()
            except _Changed:
                continue

    def _file_after(self, position: Position) -> ArchivedFile | None:
        schema = self.options.schema
        return self._ask_manifest(lambda conn: file_after(conn, schema, position), None)

    def _ask_manifest(self, question: Callable[[Connection], Answer], otherwise: Answer) -> Answer:
        """A role that was granted its privileges before there was an archive reads the table. What
        was removed from there is an error that names the privilege."""
        try:
            return self._ask(question)
        except NotPermitted:
            return otherwise

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
