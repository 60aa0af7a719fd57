"""From rows to messages, also where Python cannot hold what PostgreSQL holds.

PostgreSQL's json takes any number and any depth, its times are infinite or before our era. Messages
are decoded all together, which is fast; only if that fails, the rows are fetched again with their
JSON undecoded, and decoded one by one. A row that cannot be decoded becomes a RawMessage: a failure
of that message, never of its reader.
"""

from __future__ import annotations

import json
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
# Of json, of its nesting, and of a time. The server may say the last one too: then it does again.
UNDECODABLE = (ValueError, RecursionError, psycopg.DataError)
_UNKNOWN_TIME = datetime.min.replace(tzinfo=UTC)
_YEARS_400 = timedelta(days=146_097) // timedelta(microseconds=1)
_INFINITIES = {2**63 - 1: "infinity", -(2**63): "-infinity"}


def fetch_messages(conn: Connection, statement: Statement) -> list[RecordedMessage]:
    """The messages that a query with the columns of `recorded_message` finds."""
    try:
        with conn.cursor(binary=True, row_factory=tuple_row) as cursor:
            set_json_loads(decode_json, cursor)
            return [recorded_message(*row) for row in cursor.execute(*statement).fetchall()]
    except UNDECODABLE:
        with undecoded(conn, tuple_row) as cursor:
            return [careful_message(*row) for row in cursor.execute(*statement).fetchall()]


async def fetch_messages_async(
    conn: AsyncConnection, statement: Statement
) -> list[RecordedMessage]:
    try:
        async with conn.cursor(binary=True, row_factory=tuple_row) as cursor:
            set_json_loads(decode_json, cursor)
            await cursor.execute(*statement)
            return [recorded_message(*row) for row in await cursor.fetchall()]
    except UNDECODABLE:
        async with conn.cursor(binary=True, row_factory=tuple_row) as cursor:
            _leave_undecoded(cursor)
            await cursor.execute(*statement)
            return [careful_message(*row) for row in await cursor.fetchall()]


def undecoded(conn: Connection, row_factory: RowFactory[T]) -> psycopg.Cursor[T]:
    """A cursor that never fails to decode: JSON is bytes, a time that Python lacks is text."""
    cursor = conn.cursor(binary=True, row_factory=row_factory)
    _leave_undecoded(cursor)
    return cursor


def decode_json(text: bytes | str) -> Any:
    """PostgreSQL's json takes more than orjson does, such as a lone surrogate or 1e400."""
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
    """The one way from a row to a message."""
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


def careful_message(
    kind: str,
    data: bytes,
    key: str | None,
    topic: str,
    metadata: bytes,
    id_: Any,
    transaction_id: int,
    position: int,
    recorded_at: datetime | str,
) -> RecordedMessage:
    """The same for a row of an `undecoded` cursor."""
    columns = (key, topic, metadata, id_, transaction_id, position, recorded_at)
    if isinstance(recorded_at, str):
        return raw_message(kind, data, *columns, reason=f"it was recorded at {recorded_at}")
    try:
        decoded, decoded_metadata = decode_json(data), decode_json(metadata)
    except RecursionError:
        reason = "its JSON is nested deeper than Python reads"
    except ValueError as error:
        reason = f"its JSON: {error}"
    else:
        return recorded_message(
            kind, decoded, key, topic, decoded_metadata, id_, transaction_id, position, recorded_at
        )
    return raw_message(kind, data, *columns, reason=reason)


def raw_message(
    kind: str,
    data: bytes,
    key: str | None,
    topic: str,
    metadata: bytes,
    id_: Any,
    transaction_id: int,
    position: int,
    recorded_at: datetime | str,
    reason: str = "",
) -> RawMessage:
    """A row of an `undecoded` cursor as it is."""
    is_known = isinstance(recorded_at, datetime)
    return RawMessage(
        kind,
        None,
        key=key,
        topic=topic,
        id=id_,
        position=Position(transaction_id, position),
        recorded_at=recorded_at if isinstance(recorded_at, datetime) else _UNKNOWN_TIME,
        raw_data=data,
        raw_metadata=metadata,
        raw_recorded_at=None if is_known else str(recorded_at),
        reason=reason,
    )


def refuse_unreadable(messages: Sequence[RecordedMessage]) -> None:
    """Nobody is given a message that was not decoded."""
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
    """A time as PostgreSQL counts it, from 2000 on, which a datetime cannot hold."""
    if microseconds in _INFINITIES:
        return _INFINITIES[microseconds]
    # The calendar repeats itself every 400 years.
    times, rest = divmod(microseconds, _YEARS_400)
    at = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=rest)
    year = at.year + 400 * times
    era = "" if year > 0 else " BC"  # there is no year 0
    return f"{year if year > 0 else 1 - year:04}-{at:%m-%dT%H:%M:%S.%f}+00:00{era}"


def _leave_undecoded(context: AdaptContext) -> None:
    context.adapters.register_loader("json", _RawJson)
    context.adapters.register_loader("timestamptz", _TimeOrText)
