"""Append messages in the caller's own transaction.

One message is one INSERT, a few are one INSERT of arrays, many are one COPY; with a driver other
than psycopg 3, several INSERTs of arrays. In all cases the messages exist if and only if the
caller's transaction commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from milepost import sql
from milepost.drivers import Copy
from milepost.log.encode import DEFAULT_MAX_PAYLOAD_BYTES, Row, encode
from milepost.records import Message, Position
from milepost.steps import run_steps
from milepost.telemetry import otel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from milepost.db import Statement
    from milepost.drivers import AnyAsyncConnection, AnyConnection
    from milepost.steps import Steps

# From this number on COPY is faster than one INSERT of arrays, despite three extra round trips
# (benchmarks/append_bulk.py).
COPY_FROM = 200
# Without COPY, this many by one INSERT: neither side holds all of them in one statement.
INSERT_AT_MOST = 1000
# json is sent as text, in COPY's binary format too; as "json" psycopg would encode it again.
_COPY_TYPES = ("uuid", "text", "text", "text", "text", "text")


@overload
def append(
    conn: AnyConnection, *messages: Message, schema: str = ..., max_payload_bytes: int = ...
) -> list[Position]: ...
@overload
def append(
    conn: AnyAsyncConnection, *messages: Message, schema: str = ..., max_payload_bytes: int = ...
) -> Awaitable[list[Position]]: ...
def append(
    conn: AnyConnection | AnyAsyncConnection,
    *messages: Message,
    schema: str = sql.DEFAULT_SCHEMA,
    max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES,
) -> list[Position] | Awaitable[list[Position]]:
    """Append messages in order, in the transaction that is open on the connection.

    `conn` is a connection of psycopg, psycopg2, asyncpg or Django, or a Session or Connection of
    SQLAlchemy. Returns their positions, in the same order. With an async connection or session,
    await the result. Without an open transaction, on an autocommit connection, all of them are one
    transaction.
    """
    if otel is None or not messages:
        return _append(conn, messages, schema, max_payload_bytes, None)
    trace = otel.current()
    return otel.sent(
        "append", messages, lambda: _append(conn, messages, schema, max_payload_bytes, trace)
    )


def _append(
    conn: AnyConnection | AnyAsyncConnection,
    messages: tuple[Message, ...],
    schema: str,
    max_payload_bytes: int,
    trace: Mapping[str, str] | None,
) -> list[Position] | Awaitable[list[Position]]:
    def plan(can_copy: bool) -> tuple[Steps[list[Position]], bool]:
        if len(messages) < COPY_FROM:
            return _insert([encode(m, max_payload_bytes, trace) for m in messages], schema), False
        write = _copy if can_copy else _insert_many
        return write(messages, schema, max_payload_bytes, trace), True

    return run_steps(conn, plan, schema, "append")


def _insert(rows: list[Row], schema: str) -> Steps[list[Position]]:
    if not rows:
        return []
    if len(rows) == 1:
        found = yield sql.query("append_one", schema), rows[0]._asdict()
    else:
        names = ("ids", "topics", "keys", "types", "data", "metadata")
        columns = map(list, zip(*rows, strict=True))
        found = yield sql.query("append", schema), dict(zip(names, columns, strict=True))
    return _positions(found)


def _insert_many(
    messages: tuple[Message, ...],
    schema: str,
    max_payload_bytes: int,
    trace: Mapping[str, str] | None,
) -> Steps[list[Position]]:
    """If one is refused, a savepoint undoes the earlier ones."""
    positions: list[Position] = []
    for start in range(0, len(messages), INSERT_AT_MOST):
        some = messages[start : start + INSERT_AT_MOST]
        rows = [encode(message, max_payload_bytes, trace) for message in some]
        positions += yield from _insert(rows, schema)
    return positions


def _copy(
    messages: tuple[Message, ...],
    schema: str,
    max_payload_bytes: int,
    trace: Mapping[str, str] | None,
) -> Steps[list[Position]]:
    """They are encoded while the server writes earlier ones, which saves a third of the time. If
    one is refused, a savepoint undoes the earlier ones."""
    floor: Statement = (sql.query("append_floor", schema), {})
    ((transaction_id, before),) = yield floor
    rows = (encode(message, max_payload_bytes, trace) for message in messages)
    yield Copy(sql.query("append_copy", schema), _COPY_TYPES, rows)
    ((_, after),) = yield floor
    # COPY returns nothing, but every row draws one position, in order. If the sequence moved by
    # exactly the number of rows, no other transaction drew in between.
    if after - before == len(messages):
        return [Position(transaction_id, position) for position in range(before + 1, after + 1)]
    # As one string: psycopg takes five times as long to write an array of UUID objects.
    ids = "{" + ",".join([message.id.hex for message in messages]) + "}"
    parameters = {"transaction_id": transaction_id, "position": before, "ids": ids}
    return _positions((yield sql.query("appended_since", schema), parameters))


def _positions(found: list[Any]) -> list[Position]:
    return [Position(transaction_id, position) for transaction_id, position in found]
