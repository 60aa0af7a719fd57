"""Some messages of a file, as columns. They become messages while they are iterated over: one that
the caller does not keep is freed before the next one is made."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import repeat
from operator import length_hint, truediv
from typing import TYPE_CHECKING, Any

import orjson
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg.pq import Format

from milepost.log.decode import UNDECODABLE, careful_message, raw_message, recorded_message
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from milepost.log.selection import Selection
    from milepost.records import RawMessage, RecordedMessage

# What a message needs, in the order of `recorded_message`.
COLUMNS = (
    "type", "data", "key", "topic", "metadata", "id", "transaction_id", "position", "recorded_at"
)  # fmt: skip
# Read as indices into a list of their values: each is the same string for many messages.
REPEATED = ("type", "topic")
_AS_BYTES = ("data", "metadata", "id")
_TIME = pa.timestamp("us", tz="UTC")
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT = 2**32 * 1_000_000


@dataclass(frozen=True)
class Rows:
    """Messages in order."""

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[RecordedMessage]:
        """Decoded by functions in C, without a line of Python for each column: this is what reading
        history costs. From the first message on that cannot be decoded so, one by one."""
        kinds = iter(self._values("type"))
        try:
            yield from self._decoded(kinds)
        except UNDECODABLE:
            # Of the message that failed, the first column was taken.
            failed = max(0, len(self) - length_hint(kinds) - 1)
            for row in self.slice(failed, len(self))._undecoded():
                yield careful_message(*row)

    def raw(self) -> list[RawMessage]:
        """All of them, undecoded."""
        return [raw_message(*row) for row in self._undecoded()]

    def position(self, row: int) -> Position:
        ids, positions = self._places
        return Position(ids[row], positions[row])

    @property
    def last(self) -> Position:
        """There must be one."""
        return self.position(len(self) - 1)

    def first_after(self, position: Position) -> int:
        """The number of the first row after a position."""
        ids, positions = self._places
        first = bisect_left(ids, position.transaction_id)
        end = bisect_right(ids, position.transaction_id, lo=first)
        return bisect_right(positions, position.position, lo=first, hi=end)

    def first_since(self, time: datetime) -> int | None:
        """Of those that Python cannot represent, times BC are early, and all others late."""
        texts = self.table.column("recorded_at_text")
        is_late = pc.invert(pc.match_substring_regex(texts, "^-|BC$"))
        is_since = pc.greater_equal(self.table.column("recorded_at"), pa.scalar(time, _TIME))
        row = pc.index(pc.or_(_sure(is_since), _sure(is_late)), value=True).as_py()
        return None if row < 0 else int(row)

    def slice(self, first: int, end: int) -> Rows:
        return Rows(self.table.slice(first, max(0, end - first)))

    def selected(self, selection: Selection) -> Rows:
        """A copy, so that the rest need not be kept in memory; itself if everything is selected."""
        masks = []
        for name, wanted in (("topic", selection.topics), ("type", selection.types)):
            if wanted is not None:
                values = pa.array(list(wanted), pa.string())
                masks.append(pc.is_in(self.table.column(name), value_set=values))
        if (segment := selection.segment) is not None:
            hashes = pc.bit_wise_and(self.table.column("key_hash"), segment.mask)
            masks.append(pc.equal(hashes, segment.id))
        if selection.key is not None:
            masks.append(_sure(pc.equal(self.table.column("key"), selection.key)))
        if not masks:
            return self
        for mask in masks[1:]:
            masks[0] = pc.and_(masks[0], mask)
        return Rows(self.table.filter(masks[0]).combine_chunks())

    def _decoded(self, kinds: Iterator[str]) -> Iterator[RecordedMessage]:
        """With the first of its columns, which tells how many were decoded."""
        data, keys, topics, metadata, ids, transaction_ids, positions, times = (
            self._values(name) for name in COLUMNS[1:]
        )
        return map(
            recorded_message,
            kinds,
            map(orjson.loads, data),
            keys,
            topics,
            map(orjson.loads, metadata),
            map(_uuid, ids),
            transaction_ids,
            positions,
            _times(times),
        )

    def _undecoded(self) -> Iterator[tuple[Any, ...]]:
        """As `careful_message` takes them."""
        *columns, ids, transaction_ids, positions, times = map(self._values, COLUMNS)
        texts = self.table.column("recorded_at_text").to_pylist()
        known = (text if at is None else _time(at) for at, text in zip(times, texts, strict=True))
        return zip(*columns, map(_uuid, ids), transaction_ids, positions, known, strict=True)

    def _values(self, name: str) -> list[Any]:
        """Of a column. JSON and ids as bytes, times as numbers: what decodes them takes that."""
        column = self.table.column(name)
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if name in REPEATED:
            names = array.dictionary.to_pylist()
            return [names[index] for index in array.indices.to_pylist()]
        if name in _AS_BYTES:
            array = array.view(pa.binary())
        elif name == "recorded_at":
            array = array.view(pa.int64())
        found: list[Any] = array.to_pylist()
        return found

    @cached_property
    def _places(self) -> tuple[memoryview, memoryview]:
        ids, positions = (_numbers(self.table, name) for name in ("transaction_id", "position"))
        return ids, positions


def _numbers(table: pa.Table, name: str) -> memoryview:
    """The values of an integer column without nulls, without a copy."""
    array = table.column(name).combine_chunks()
    view = memoryview(array.buffers()[1]).cast("q") if len(array) else memoryview(b"").cast("q")
    return view[array.offset : array.offset + len(array)]


def _sure(mask: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(mask, fill_value=False)


def _times(microseconds: list[int | None]) -> Iterator[datetime]:
    """A number of seconds as a float is exact to the microsecond until 2106. Messages of one
    transaction have the same time, which is made once."""
    different = set(microseconds)
    if None not in different and 2 * len(different) <= len(microseconds):
        made = {each: _time(each) for each in different}
        return map(made.__getitem__, microseconds)
    try:
        is_exact = min(different) >= 0 and max(different) < _EXACT  # type: ignore[type-var, operator]
    except (TypeError, ValueError):  # it has None, or nothing
        is_exact = False
    if not is_exact:
        return map(_time, microseconds)
    seconds = map(truediv, microseconds, repeat(1e6))
    return map(datetime.fromtimestamp, seconds, repeat(UTC))


def _time(microseconds: int | None) -> datetime:
    if microseconds is None:
        raise ValueError("a time that Python cannot represent")
    return _UNIX_EPOCH + timedelta(0, 0, microseconds)


def _loader_of_ids() -> Callable[[bytes], UUID]:
    """The driver's, which is faster than the constructor."""
    oid = psycopg.adapters.types["uuid"].oid
    loader = psycopg.adapters.get_loader(oid, Format.TEXT)
    if loader is None:
        raise RuntimeError("psycopg has no loader for uuid.")
    return loader(oid).load


_uuid = _loader_of_ids()
