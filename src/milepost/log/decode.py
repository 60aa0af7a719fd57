"""From rows to messages, including values that PostgreSQL can store and Python cannot represent.

PostgreSQL's json accepts any number and any depth; its times may be infinite or BC. Each row is
decoded in the fastest way. If that fails, this row is loaded again with its JSON undecoded, and
decoded carefully. A row that cannot be decoded becomes a RawMessage: only that message fails, not
its reader.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

import orjson
import psycopg
from psycopg.adapt import AdaptersMap, Loader, Transformer
from psycopg.pq import Format
from psycopg.types.datetime import TimestamptzBinaryLoader

from milepost.db import plain
from milepost.errors import UnreadableMessage
from milepost.records import Position, RawMessage, RecordedMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg import BaseConnection
    from psycopg.abc import Buffer
    from psycopg.pq.abc import PGresult
    from psycopg.rows import RowFactory

    from milepost.db import Connection, Statement

T = TypeVar("T")
# For JSON, its nesting, and a time.
UNDECODABLE = (ValueError, RecursionError, psycopg.DataError)
_TRANSACTION_ID, _POSITION = 6, 7  # the columns of `recorded_message`
_UNKNOWN_TIME = datetime.min.replace(tzinfo=UTC)
_YEARS_400 = timedelta(days=146_097) // timedelta(microseconds=1)
_INFINITIES = {2**63 - 1: "infinity", -(2**63): "-infinity"}


def fetch_rows(conn: Connection, statement: Statement) -> ResultRows:
    """What a query with the columns of `recorded_message` finds, not decoded yet."""
    with plain(conn, binary=True) as cursor:
        cursor.execute(*statement)
        with suppress(IndexError):  # there are no rows
            cursor.scroll(0)  # in a pipeline, this waits for the result
        return ResultRows(conn, cast("PGresult", cursor.pgresult))


@dataclass(frozen=True, slots=True)
class ResultRows:
    """Rows with the columns of `recorded_message`, decoded one by one while they are iterated over.
    A message that the caller does not keep is freed when the next one is decoded. So the garbage
    collector never runs for them, and they fit into the processor's cache, which saves half of the
    time (docs/decisions/0005)."""

    conn: BaseConnection[Any]
    result: PGresult

    def __len__(self) -> int:
        return self.result.ntuples

    def __iter__(self) -> Iterator[RecordedMessage]:
        load = self._loaded_by(_DECODING).load_row
        for number in range(len(self)):
            try:
                row = load(number, tuple)
            except UNDECODABLE:
                yield careful_message(*self._loaded_by(_NOT_DECODING).load_row(number, tuple))
            else:
                yield recorded_message(*row)

    def last_position(self) -> Position:
        """Without decoding its row; there must be one."""
        transaction_id, position = (
            int.from_bytes(self.result.get_value(len(self) - 1, column) or b"", "big", signed=True)
            for column in (_TRANSACTION_ID, _POSITION)
        )
        return Position(transaction_id, position)

    def _loaded_by(self, adapters: AdaptersMap) -> psycopg.abc.Transformer:
        transformer = Transformer(_Context(adapters, self.conn))
        transformer.set_pgresult(self.result)
        return transformer


@dataclass(frozen=True, slots=True)
class _Context:
    """A connection, with our loaders instead of those that its user may have registered."""

    adapters: AdaptersMap
    connection: BaseConnection[Any]


def undecoded(conn: Connection, row_factory: RowFactory[T]) -> psycopg.Cursor[T]:
    """A cursor that never fails to decode: JSON as bytes, a time outside Python's range as str."""
    cursor = conn.cursor(binary=True, row_factory=row_factory)
    _never_failing(cursor.adapters)
    return cursor


def decode_json(text: bytes | str) -> Any:
    """PostgreSQL's json accepts more than orjson, such as a lone surrogate or 1e400."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)


def recorded_message(
    kind: str,
    data: Any,
    key: str | None,
    topic: str,
    metadata: Any,
    id_: Any,
    transaction_id: int,
    position: int,
    recorded_at: datetime,
) -> RecordedMessage:
    """The only conversion from a row to a message. The constructors of the frozen dataclasses would
    take five times as long."""
    place: Any = _new(_MutablePosition)
    place.transaction_id = transaction_id
    place.position = position
    place.__class__ = Position
    message: Any = _new(_MutableMessage)
    message.type = kind
    message.data = data
    message.key = key
    message.topic = topic
    message.metadata = metadata
    message.id = id_
    message.position = place
    message.recorded_at = recorded_at
    message.replaying = False
    message.__class__ = RecordedMessage
    return message  # type: ignore[no-any-return]


_new = object.__new__


class _MutablePosition(Position):
    """A Position while its fields are set. Its `__class__` can be changed to Position, because a
    class without slots of its own has the same layout. psycopg creates UUIDs in the same way."""

    __slots__ = ()
    # Setting a field is fast only if both are those of `object`.
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__


class _MutableMessage(RecordedMessage):
    """The same for a message."""

    __slots__ = ()
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__


def careful_message(*row: Any) -> RecordedMessage:
    """The same for a row of an `undecoded` cursor."""
    raw = raw_message(*row)
    if raw.raw_recorded_at is not None:
        return replace(raw, reason=f"it was recorded at {raw.raw_recorded_at}")
    kind, data, key, topic, metadata, *rest = row
    try:
        return recorded_message(kind, decode_json(data), key, topic, decode_json(metadata), *rest)
    except RecursionError:
        return replace(raw, reason="its JSON is nested deeper than Python can read")
    except ValueError as error:
        return replace(raw, reason=f"its JSON: {error}")


def raw_message(*row: Any) -> RawMessage:
    """A row of an `undecoded` cursor, unchanged."""
    kind, data, key, topic, metadata, id_, transaction_id, position, recorded_at = row
    is_known = isinstance(recorded_at, datetime)
    return RawMessage(
        kind,
        None,
        key=key,
        topic=topic,
        id=id_,
        position=Position(transaction_id, position),
        recorded_at=recorded_at if is_known else _UNKNOWN_TIME,
        raw_data=data,
        raw_metadata=metadata,
        raw_recorded_at=None if is_known else str(recorded_at),
        reason="",
    )


def refuse_unreadable(messages: Sequence[RecordedMessage]) -> None:
    """Handlers get only decoded messages."""
    if RawMessage in map(type, messages):
        raise next(unreadable(message) for message in messages if isinstance(message, RawMessage))


def unreadable(message: RawMessage) -> UnreadableMessage:
    return UnreadableMessage(message.position, message.reason)


class _Json(Loader):
    format = Format.BINARY
    load = staticmethod(orjson.loads)  # type: ignore[assignment]  # not a method: one call less


class _RawJson(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


class _TimeOrText(TimestamptzBinaryLoader):
    def load(self, data: Buffer) -> Any:
        try:
            return super().load(data)
        except psycopg.DataError:
            return time_text(int.from_bytes(data, "big", signed=True))


def _decoding(adapters: AdaptersMap) -> AdaptersMap:
    adapters.register_loader("json", _Json)
    return adapters


def _never_failing(adapters: AdaptersMap) -> AdaptersMap:
    adapters.register_loader("json", _RawJson)
    adapters.register_loader("timestamptz", _TimeOrText)
    return adapters


_DECODING = _decoding(AdaptersMap(psycopg.adapters))
_NOT_DECODING = _never_failing(AdaptersMap(psycopg.adapters))


def time_text(microseconds: int) -> str:
    """A time, in microseconds since 2000, that is outside the range of datetime."""
    if microseconds in _INFINITIES:
        return _INFINITIES[microseconds]
    # The calendar repeats every 400 years.
    times, rest = divmod(microseconds, _YEARS_400)
    at = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=rest)
    year = at.year + 400 * times
    era = "" if year > 0 else " BC"  # there is no year 0
    return f"{year if year > 0 else 1 - year:04}-{at:%m-%dT%H:%M:%S.%f}+00:00{era}"
