"""Append messages in the caller's own transaction.

One message is one INSERT, a few are one INSERT of arrays, many are one COPY; with a driver other
than psycopg 3, several INSERTs of arrays. With conditions it is one call of a function. In all
cases the messages exist if and only if the caller's transaction commits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from milepost import sql
from milepost.drivers import Copy
from milepost.log.conditions import UNCONDITIONAL, Conditions
from milepost.log.encode import DEFAULT_MAX_PAYLOAD_BYTES, Row, encode
from milepost.records import Message, Position
from milepost.steps import run_steps
from milepost.telemetry import otel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from milepost.db import Statement
    from milepost.drivers import AnyAsyncConnection, AnyConnection
    from milepost.log.conditions import Newer
    from milepost.steps import Steps

# From this number on COPY is faster than one INSERT of arrays, despite three extra round trips
# (benchmarks/append_bulk.py).
COPY_FROM = 200
# Without COPY, this many by one INSERT: neither side holds all of them in one statement.
INSERT_AT_MOST = 1000
# json is sent as text, in COPY's binary format too; as "json" psycopg would encode it again.
_COPY_TYPES = ("uuid", "text", "text", "text", "text", "text")


@dataclass(frozen=True, slots=True)
class _Appending:
    """How the messages of one call are appended."""

    schema: str
    max_payload_bytes: int
    conditions: Conditions


@overload
def append(
    conn: AnyConnection,
    *messages: Message,
    unless: Newer | None = ...,
    once: bool = ...,
    schema: str = ...,
    max_payload_bytes: int = ...,
) -> list[Position]: ...
@overload
def append(
    conn: AnyAsyncConnection,
    *messages: Message,
    unless: Newer | None = ...,
    once: bool = ...,
    schema: str = ...,
    max_payload_bytes: int = ...,
) -> Awaitable[list[Position]]: ...
def append(
    conn: AnyConnection | AnyAsyncConnection,
    *messages: Message,
    unless: Newer | None = None,
    once: bool = False,
    schema: str = sql.DEFAULT_SCHEMA,
    max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES,
) -> list[Position] | Awaitable[list[Position]]:
    """Append messages in order, in the transaction that is open on the connection.

    `conn` is a connection of psycopg, psycopg2, asyncpg or Django, or a Session or Connection of
    SQLAlchemy. Returns their positions, in the same order. With an async connection or session,
    await the result. Without an open transaction, on an autocommit connection, all of them are one
    transaction.

    `unless=Newer(key=..., after=...)`: raises AppendConflict if the key has messages that the
    caller has not read. `once`: a message whose id is in the log already is left out; its position
    is that of the one in the log.
    """
    conditions = Conditions(unless, once) if once or unless is not None else UNCONDITIONAL
    how = _Appending(schema, max_payload_bytes, conditions)
    if otel is None or not messages:
        return _append(conn, messages, how, None)
    trace = otel.current()
    return otel.sent("append", messages, lambda: _append(conn, messages, how, trace))


def _append(
    conn: AnyConnection | AnyAsyncConnection,
    messages: Sequence[Message],
    how: _Appending,
    trace: Mapping[str, str] | None,
) -> list[Position] | Awaitable[list[Position]]:
    def plan(can_copy: bool) -> tuple[Steps[list[Position]], bool]:
        if len(messages) < COPY_FROM or how.conditions.once:
            rows = [encode(message, how.max_payload_bytes, trace) for message in messages]
            insert = _insert_conditionally if how.conditions else _insert
            return insert(rows, how), False
        write = _copy if can_copy else _insert_many
        return _checked(how, write(messages, how, trace)), True

    return run_steps(conn, plan, how.schema, "append")


def _checked(how: _Appending, steps: Steps[list[Position]]) -> Steps[list[Position]]:
    if how.conditions.unless is not None:
        yield sql.query("refuse_newer", how.schema), how.conditions.unless.parameters()
    return (yield from steps)


def _insert(rows: list[Row], how: _Appending) -> Steps[list[Position]]:
    if not rows:
        return []
    if len(rows) == 1:
        found = yield sql.query("append_one", how.schema), rows[0]._asdict()
    else:
        found = yield sql.query("append", how.schema), _columns(rows)
    return _positions(found)


def _insert_many(
    messages: Sequence[Message], how: _Appending, trace: Mapping[str, str] | None
) -> Steps[list[Position]]:
    """If one is refused, a savepoint undoes the earlier ones."""
    positions: list[Position] = []
    for start in range(0, len(messages), INSERT_AT_MOST):
        some = messages[start : start + INSERT_AT_MOST]
        rows = [encode(message, how.max_payload_bytes, trace) for message in some]
        positions += yield from _insert(rows, how)
    return positions


def _insert_conditionally(rows: list[Row], how: _Appending) -> Steps[list[Position]]:
    """One statement, so that it is one transaction also on an autocommit connection."""
    if not rows:
        return []
    parameters = _columns(rows) | how.conditions.parameters()
    found = yield sql.query("append_conditionally", how.schema), parameters
    return _positions(found)


def _columns(rows: list[Row]) -> dict[str, Any]:
    names = ("ids", "topics", "keys", "types", "data", "metadata")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _copy(
    messages: Sequence[Message], how: _Appending, trace: Mapping[str, str] | None
) -> Steps[list[Position]]:
    """They are encoded while the server writes earlier ones, which saves a third of the time. If
    one is refused, a savepoint undoes the earlier ones."""
    schema = how.schema
    floor: Statement = (sql.query("append_floor", schema), {})
    ((transaction_id, before),) = yield floor
    rows = (encode(message, how.max_payload_bytes, trace) for message in messages)
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
