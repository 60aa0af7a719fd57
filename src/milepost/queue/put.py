"""Put jobs in the caller's own transaction.

One job is one call of put_bytes(), a few are one call of put_many_bytes(), many are one COPY.
Whatever the way, the jobs exist if and only if the caller's transaction commits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import psycopg
from psycopg.pq import TransactionStatus

from milepost import sql
from milepost.db import check_usable, one, plain, plain_async, translated
from milepost.queue.encode import PLAIN, Row, check_channel, encode, encode_value, is_plain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator
    from datetime import datetime

    from milepost.db import AsyncConnection, Connection, Statement
    from milepost.records import Job

# From here on COPY is faster than one call with arrays, as for the log.
COPY_FROM = 200
# An enum travels as text, in COPY's binary format too.
_COPY_TYPES = (
    "int8", "text", "bytea", "timestamptz", "text", "int2", "int4", "bytea", "interval"
)  # fmt: skip
_PLAIN_TYPES = _COPY_TYPES[:4]


@overload
def put(conn: Connection, *jobs: Job, schema: str = ...) -> list[int]: ...
@overload
def put(conn: AsyncConnection, *jobs: Job, schema: str = ...) -> Awaitable[list[int]]: ...
def put(
    conn: Connection | AsyncConnection, *jobs: Job, schema: str = sql.DEFAULT_SCHEMA
) -> list[int] | Awaitable[list[int]]:
    """Put jobs, in the transaction that is open on the connection; answers with their ids, in the
    same order. With an AsyncConnection, await it.

    Where an unfinished job of the channel has the same unique key, its id is answered instead.
    """
    if len(jobs) < COPY_FROM or any(job.unique_key is not None for job in jobs):
        rows = [encode(job) for job in jobs]
        check_usable(conn)
        if isinstance(conn, psycopg.AsyncConnection):
            return _put_rows_async(conn, rows, schema)
        return put_rows(conn, rows, schema)
    check_usable(conn)
    bulk = _Bulk.of(jobs, schema)
    return bulk.run_async(conn) if isinstance(conn, psycopg.AsyncConnection) else bulk.run(conn)


def put_rows(conn: Connection, rows: list[Row], schema: str = sql.DEFAULT_SCHEMA) -> list[int]:
    """Put jobs that are encoded already, in one statement."""
    if not rows:
        return []
    with translated(schema, "put", conn):
        return [row[0] for row in plain(conn).execute(*_statement(rows, schema)).fetchall()]


async def _put_rows_async(conn: AsyncConnection, rows: list[Row], schema: str) -> list[int]:
    if not rows:
        return []
    with translated(schema, "put", conn):
        found = await plain_async(conn).execute(*_statement(rows, schema))
        return [row[0] for row in await found.fetchall()]


@dataclass(frozen=True, slots=True)
class _Bulk:
    """Many jobs by COPY. Their ids and the server's time come first: COPY answers with nothing,
    and computes nothing. They are encoded while the server writes the earlier ones, one at a
    time; a savepoint undoes those if one is refused."""

    jobs: tuple[Job, ...]
    counts: Counter[str]  # of each channel
    is_plain: bool
    schema: str

    @classmethod
    def of(cls, jobs: tuple[Job, ...], schema: str) -> _Bulk:
        counts = Counter([job.channel for job in jobs])
        for name in counts:
            check_channel(name)
        return cls(jobs, counts, all(map(is_plain, jobs)), schema)

    def run(self, conn: Connection) -> list[int]:
        with translated(self.schema, "put", conn):
            if _would_commit(conn):
                conn.execute(self._time())
            with conn.transaction():
                now, ids = one(plain(conn).execute(*self._draw()).fetchone())
                with conn.cursor().copy(self._copy()) as copy:
                    copy.set_types(self._types())
                    for row in self._values(now, ids):
                        copy.write_row(row)
        return list(ids)

    async def run_async(self, conn: AsyncConnection) -> list[int]:
        with translated(self.schema, "put", conn):
            if _would_commit(conn):
                await conn.execute(self._time())
            async with conn.transaction():
                drawn = await plain_async(conn).execute(*self._draw())
                now, ids = one(await drawn.fetchone())
                async with conn.cursor().copy(self._copy()) as copy:
                    copy.set_types(self._types())
                    for row in self._values(now, ids):
                        await copy.write_row(row)
        return list(ids)

    def _time(self) -> bytes:
        return sql.query("queue_time", self.schema)

    def _draw(self) -> Statement:
        return sql.query("queue_draw_ids", self.schema), {
            "count": len(self.jobs),
            "channels": list(self.counts),
            "counts": list(self.counts.values()),
        }

    def _copy(self) -> bytes:
        return sql.query("queue_copy_plain" if self.is_plain else "queue_copy", self.schema)

    def _types(self) -> tuple[str, ...]:
        return _PLAIN_TYPES if self.is_plain else _COPY_TYPES

    def _values(self, now: datetime, ids: list[int]) -> Iterator[tuple[Any, ...]]:
        if self.is_plain:
            for id_, job in zip(ids, self.jobs, strict=True):
                yield id_, job.channel, encode_value("content", job.content), now
            return
        for id_, job in zip(ids, self.jobs, strict=True):
            row = encode(job)
            run_at = row.run_at or (now if row.delay is None else now + row.delay)
            status = "scheduled" if run_at > now else "ready"
            yield (
                id_, row.channel, row.content, run_at, status, row.priority, row.max_attempts,
                row.state, row.keep_for,
            )  # fmt: skip


def _would_commit(conn: Connection | AsyncConnection) -> bool:
    """Where no transaction is open yet and psycopg is to open one implicitly, a `transaction()`
    block would be the outermost one, and commit what is the caller's to commit. Any statement
    before it opens the caller's."""
    return not conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE


def _statement(rows: list[Row], schema: str) -> Statement:
    if len(rows) == 1:
        row = rows[0]
        if row[2:] == PLAIN:
            return sql.query("queue_put_plain", schema), {"channel": row[0], "content": row[1]}
        return sql.query("queue_put", schema), row._asdict()
    names = (
        "channels", "contents", "run_ats", "delays", "priorities", "max_attempts", "unique_keys",
        "states", "keep_for",
    )  # fmt: skip
    columns = zip(*rows, strict=True)
    return sql.query("queue_put_many", schema), {
        name: list(column) for name, column in zip(names, columns, strict=True)
    }
