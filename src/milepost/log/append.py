"""Append messages in the caller's own transaction.

One message is one INSERT, a few are one INSERT of arrays, many are one COPY. Whatever the way,
the messages exist if and only if the caller's transaction commits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import psycopg
from psycopg.pq import TransactionStatus

from milepost import sql
from milepost.db import (
    AsyncConnection,
    Connection,
    Statement,
    check_usable,
    plain,
    plain_async,
    translated,
)
from milepost.log.encode import DEFAULT_MAX_PAYLOAD_BYTES, Row, encode
from milepost.records import Message, Position

if TYPE_CHECKING:
    from collections.abc import Awaitable

# From here on COPY is faster than one INSERT of arrays, in spite of its three extra round trips
# (benchmarks/append_bulk.py).
COPY_FROM = 200
# json travels as text, in COPY's binary format too; as "json" psycopg would encode it once more.
_COPY_TYPES = ("uuid", "text", "text", "text", "text", "text")


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
    if len(messages) < COPY_FROM:
        rows = [encode(message, max_payload_bytes) for message in messages]
        check_usable(conn)
        if isinstance(conn, psycopg.AsyncConnection):
            return _insert_async(conn, rows, schema)
        return _insert_sync(conn, rows, schema)
    check_usable(conn)
    bulk = _Bulk(messages, schema, max_payload_bytes)
    return bulk.run_async(conn) if isinstance(conn, psycopg.AsyncConnection) else bulk.run(conn)


def _insert_sync(conn: Connection, rows: list[Row], schema: str) -> list[Position]:
    if not rows:
        return []
    with translated(schema, "append", conn):
        return _positions(plain(conn).execute(*_insert(rows, schema)).fetchall())


async def _insert_async(conn: AsyncConnection, rows: list[Row], schema: str) -> list[Position]:
    if not rows:
        return []
    with translated(schema, "append", conn):
        found = await plain_async(conn).execute(*_insert(rows, schema))
        return _positions(await found.fetchall())


@dataclass(frozen=True, slots=True)
class _Bulk:
    """Many messages by COPY. They are encoded while the server writes the earlier ones, which
    takes a third off the time; a savepoint undoes those if one is refused."""

    messages: tuple[Message, ...]
    schema: str
    max_payload_bytes: int

    def run(self, conn: Connection) -> list[Position]:
        with translated(self.schema, "append", conn):
            begin(conn, self.schema)
            with conn.transaction():
                before = plain(conn).execute(self._floor()).fetchone()
                with conn.cursor().copy(self._copy()) as copy:
                    copy.set_types(_COPY_TYPES)
                    for message in self.messages:
                        copy.write_row(encode(message, self.max_payload_bytes))
                after = plain(conn).execute(self._floor()).fetchone()
                if self._drew_alone(before, after):
                    return _positions_between(before, after)
                found = plain(conn).execute(*self._appended(before))
                return _positions(found.fetchall())

    async def run_async(self, conn: AsyncConnection) -> list[Position]:
        with translated(self.schema, "append", conn):
            await begin_async(conn, self.schema)
            async with conn.transaction():
                before = await (await plain_async(conn).execute(self._floor())).fetchone()
                async with conn.cursor().copy(self._copy()) as copy:
                    copy.set_types(_COPY_TYPES)
                    for message in self.messages:
                        await copy.write_row(encode(message, self.max_payload_bytes))
                after = await (await plain_async(conn).execute(self._floor())).fetchone()
                if self._drew_alone(before, after):
                    return _positions_between(before, after)
                found = await plain_async(conn).execute(*self._appended(before))
                return _positions(await found.fetchall())

    def _floor(self) -> bytes:
        return sql.query("append_floor", self.schema)

    def _copy(self) -> bytes:
        return sql.query("append_copy", self.schema)

    def _drew_alone(self, before: Any, after: Any) -> bool:
        """COPY returns nothing, but every row draws once and in order: a sequence that moved by
        as many as there are rows moved for them alone."""
        return bool(after[1] - before[1] == len(self.messages))

    def _appended(self, floor: Any) -> Statement:
        transaction_id, position = floor
        # As one text: psycopg takes five times as long to write an array of UUID objects.
        ids = "{" + ",".join([message.id.hex for message in self.messages]) + "}"
        parameters = {"transaction_id": transaction_id, "position": position, "ids": ids}
        return sql.query("appended_since", self.schema), parameters


def begin(conn: Connection, schema: str) -> None:
    """Where no transaction is open yet and psycopg is to open one implicitly, a `transaction()`
    block would be the outermost one, and commit what is the caller's to commit. Any statement
    before it opens the caller's."""
    if _would_commit(conn):
        conn.execute(sql.query("append_floor", schema))


async def begin_async(conn: AsyncConnection, schema: str) -> None:
    if _would_commit(conn):
        await conn.execute(sql.query("append_floor", schema))


def _would_commit(conn: Connection | AsyncConnection) -> bool:
    return not conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE


def _insert(rows: list[Row], schema: str) -> Statement:
    if len(rows) == 1:
        return sql.query("append_one", schema), rows[0]._asdict()
    names = ("ids", "topics", "keys", "types", "data", "metadata")
    columns = zip(*rows, strict=True)
    return sql.query("append", schema), {
        name: list(column) for name, column in zip(names, columns, strict=True)
    }


def _positions_between(before: Any, after: Any) -> list[Position]:
    transaction_id, floor = before
    return [Position(transaction_id, position) for position in range(floor + 1, after[1] + 1)]


def _positions(found: list[Any]) -> list[Position]:
    return [Position(transaction_id, position) for transaction_id, position in found]
