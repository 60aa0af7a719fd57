"""Append messages in the caller's own transaction.

One message is one INSERT, a few are one INSERT of arrays, many are one COPY. Whatever the way,
the messages exist if and only if the caller's transaction commits.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import psycopg
from psycopg.pq import TransactionStatus

from milepost import sql
from milepost.db import AsyncConnection, Connection, check_usable, translated
from milepost.log.encode import DEFAULT_MAX_PAYLOAD_BYTES, Row, encode
from milepost.records import Message, Position

if TYPE_CHECKING:
    from collections.abc import Awaitable

# From here on COPY is faster than one INSERT of arrays, in spite of its three extra round trips
# (benchmarks/append_bulk.py).
COPY_FROM = 100
# json travels as text, in COPY's binary format too; as "json" psycopg would encode it once more.
_COPY_TYPES = ("uuid", "text", "text", "text", "text", "text")
_Statement: TypeAlias = "tuple[bytes, dict[str, Any]]"


@overload
def append(
    conn: Connection, *messages: Message, schema: str = ..., max_payload_bytes: int = ...
) -> list[Position]: ...
@overload
def append(
    conn: AsyncConnection, *messages: Message, schema: str = ..., max_payload_bytes: int = ...
) -> Awaitable[list[Position]]: ...
def append(
    conn: Connection | AsyncConnection,
    *messages: Message,
    schema: str = sql.DEFAULT_SCHEMA,
    max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES,
) -> list[Position] | Awaitable[list[Position]]:
    """Append messages in order, in the transaction that is open on the connection.

    Answers with their positions, in the same order. With an AsyncConnection, await it.
    Without an open transaction, on an autocommit connection, all of them are one transaction.
    """
    rows = [encode(message, max_payload_bytes) for message in messages]
    check_usable(conn)
    if isinstance(conn, psycopg.AsyncConnection):
        return _append_async(conn, rows, schema)
    return _append_sync(conn, rows, schema)


def _append_sync(conn: Connection, rows: list[Row], schema: str) -> list[Position]:
    if not rows:
        return []
    with translated(schema):
        if len(rows) < COPY_FROM:
            return _positions(conn.execute(*_insert(rows, schema)).fetchall())
        with conn.transaction() if _needs_transaction(conn) else nullcontext():
            before = conn.execute(sql.query("append_floor", schema)).fetchone()
            with conn.cursor().copy(sql.query("append_copy", schema)) as copy:
                copy.set_types(_COPY_TYPES)
                for row in rows:
                    copy.write_row(row)
            after = conn.execute(sql.query("append_floor", schema)).fetchone()
            if _drew_alone(rows, before, after):
                return _positions_between(before, after)
            appended = conn.execute(*_appended(rows, before, schema), prepare=False)
            return _positions(appended.fetchall())


async def _append_async(conn: AsyncConnection, rows: list[Row], schema: str) -> list[Position]:
    if not rows:
        return []
    with translated(schema):
        if len(rows) < COPY_FROM:
            return _positions(await (await conn.execute(*_insert(rows, schema))).fetchall())
        async with conn.transaction() if _needs_transaction(conn) else nullcontext():
            before = await (await conn.execute(sql.query("append_floor", schema))).fetchone()
            async with conn.cursor().copy(sql.query("append_copy", schema)) as copy:
                copy.set_types(_COPY_TYPES)
                for row in rows:
                    await copy.write_row(row)
            after = await (await conn.execute(sql.query("append_floor", schema))).fetchone()
            if _drew_alone(rows, before, after):
                return _positions_between(before, after)
            appended = await conn.execute(*_appended(rows, before, schema), prepare=False)
            return _positions(await appended.fetchall())


def _needs_transaction(conn: Connection | AsyncConnection) -> bool:
    """An open transaction is used as it is: a savepoint would cost a transaction id."""
    return conn.info.transaction_status == TransactionStatus.IDLE


def _insert(rows: list[Row], schema: str) -> _Statement:
    if len(rows) == 1:
        return sql.query("append_one", schema), rows[0]._asdict()
    names = ("ids", "topics", "keys", "types", "data", "metadata")
    columns = zip(*rows, strict=True)
    return sql.query("append", schema), {
        name: list(column) for name, column in zip(names, columns, strict=True)
    }


def _drew_alone(rows: list[Row], before: Any, after: Any) -> bool:
    """COPY returns nothing, but every row draws once and in order: a sequence that moved by as
    many as there are rows moved for them alone."""
    return bool(after[1] - before[1] == len(rows))


def _positions_between(before: Any, after: Any) -> list[Position]:
    transaction_id, floor = before
    return [Position(transaction_id, position) for position in range(floor + 1, after[1] + 1)]


def _appended(rows: list[Row], floor: Any, schema: str) -> _Statement:
    """Not to be prepared: the server hashes the ids only if it knows them when it plans. With a
    plan for any ids it compares every row with every id, 20,000 of each in a second."""
    transaction_id, position = floor
    # As one text: psycopg takes eight times as long to write an array of UUID objects.
    ids = "{" + ",".join([row.id.hex for row in rows]) + "}"
    parameters = {"transaction_id": transaction_id, "position": position, "ids": ids}
    return sql.query("appended_since", schema), parameters


def _positions(found: list[Any]) -> list[Position]:
    return [Position(transaction_id, position) for transaction_id, position in found]
