"""psycopg 3: the driver that Milepost itself uses, and the only one that copies."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.pq import TransactionStatus

from milepost import sql
from milepost.db import check_usable, plain, plain_async, translated
from milepost.drivers.driver import AsyncDriver, Copy, Driver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from milepost.db import AsyncConnection, Connection, Statement


@dataclass(slots=True)
class Psycopg(Driver):
    conn: Connection

    @property
    def psycopg(self) -> Connection:
        return self.conn

    def check(self) -> None:
        check_usable(self.conn)

    def errors(self, schema: str, activity: sql.Activity) -> AbstractContextManager[None]:
        return translated(schema, activity, self.conn)

    def savepoint(self) -> AbstractContextManager[None]:
        return savepoint(self.conn)

    def do(self, step: Statement | Copy) -> Any:
        if not isinstance(step, Copy):
            return plain(self.conn).execute(*step).fetchall()
        with self.conn.cursor().copy(step.query) as copy:
            copy.set_types(step.types)
            for row in step.rows:
                copy.write_row(row)
        return None


@dataclass(slots=True)
class AsyncPsycopg(AsyncDriver):
    conn: AsyncConnection

    @property
    def psycopg(self) -> AsyncConnection:
        return self.conn

    def check(self) -> None:
        check_usable(self.conn)

    def errors(self, schema: str, activity: sql.Activity) -> AbstractContextManager[None]:
        return translated(schema, activity, self.conn)

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        return savepoint_async(self.conn)

    async def do(self, step: Statement | Copy) -> Any:
        if not isinstance(step, Copy):
            return await (await plain_async(self.conn).execute(*step)).fetchall()
        async with self.conn.cursor().copy(step.query) as copy:
            copy.set_types(step.types)
            for row in step.rows:
                await copy.write_row(row)
        return None


@contextmanager
def savepoint(conn: Connection) -> Iterator[None]:
    """A block that is undone if it fails. If psycopg has yet to open the caller's transaction, a
    `transaction()` block would be the outermost one and would commit, which only the caller may do.
    Any statement before the block opens the caller's transaction."""
    if _would_commit(conn):
        conn.execute(sql.query("queue_time"))
    with conn.transaction():
        yield


@asynccontextmanager
async def savepoint_async(conn: AsyncConnection) -> AsyncIterator[None]:
    if _would_commit(conn):
        await conn.execute(sql.query("queue_time"))
    async with conn.transaction():
        yield


def _would_commit(conn: Connection | AsyncConnection) -> bool:
    return not conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE
