"""From rows to messages, including values that PostgreSQL can store and Python cannot represent.

PostgreSQL's json accepts any number and any depth; its times may be infinite or BC. All messages
are decoded together, which is fast. If that fails, the rows are fetched again with their JSON
undecoded, and decoded one by one. A row that cannot be decoded becomes a RawMessage: only that
message fails, not its reader.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
import psycopg
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.rows import tuple_row
from psycopg.types.datetime import TimestamptzBinaryLoader
from psycopg.types.json import set_json_loads

from milepost.errors import UnreadableMessage
from milepost.records import Position, RawMessage, RecordedMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg.abc import AdaptContext, Buffer
    from psycopg.rows import RowFactory

    from milepost.db import AsyncConnection, Connection, Statement

T = TypeVar("T")
C = TypeVar("C", bound="AdaptContext")
# For JSON, its nesting, and a time. A DataError may come from the server: then it comes again.
UNDECODABLE = (ValueError, RecursionError, psycopg.DataError)
_UNKNOWN_TIME = datetime.min.replace(tzinfo=UTC)
_YEARS_400 = timedelta(days=146_097) // timedelta(microseconds=1)
_INFINITIES = {2**63 - 1: "infinity", -(2**63): "-infinity"}


def fetch_messages(conn: Connection, statement: Statement) -> list[RecordedMessage]:
    """The messages that a query with the columns of `recorded_message` finds."""
    try:
        with _decoding(conn.cursor(binary=True, row_factory=tuple_row)) as cursor:
            return [recorded_message(*row) for row in cursor.execute(*statement).fetchall()]
    except UNDECODABLE:
        with undecoded(conn, tuple_row) as cursor:
            return [careful_message(*row) for row in cursor.execute(*statement).fetchall()]


async def fetch_messages_async(
    conn: AsyncConnection, statement: Statement
) -> list[RecordedMessage]:
    try:
        async with _decoding(conn.cursor(binary=True, row_factory=tuple_row)) as cursor:
            await cursor.execute(*statement)
            return [recorded_message(*row) for row in await cursor.fetchall()]
    except UNDECODABLE:
        async with _not_decoding(conn.cursor(binary=True, row_factory=tuple_row)) as cursor:
            await cursor.execute(*statement)
            return [careful_message(*row) for row in await cursor.fetchall()]


def undecoded(conn: Connection, row_factory: RowFactory[T]) -> psycopg.Cursor[T]:
    """A cursor that never fails to decode: JSON as bytes, a time outside Python's range as str."""
    return _not_decoding(conn.cursor(binary=True, row_factory=row_factory))


def _decoding(cursor: C) -> C:
    set_json_loads(decode_json, cursor)
    return cursor


def _not_decoding(cursor: C) -> C:
    cursor.adapters.register_loader("json", _RawJson)
    cursor.adapters.register_loader("timestamptz", _TimeOrText)
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
    """The only conversion from a row to a message."""
    return RecordedMessage(
        kind,
        data,
        key=key,
        topic=topic,
        metadata=metadata,
        id=id_,
        position=Position(transaction_id, position),
        recorded_at=recorded_at,
    )


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
    """Subscribers get only decoded messages."""
    if RawMessage in map(type, messages):
        raise next(unreadable(message) for message in messages if isinstance(message, RawMessage))


def unreadable(message: RawMessage) -> UnreadableMessage:
    return UnreadableMessage(message.position, message.reason)


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
