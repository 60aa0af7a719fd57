"""Statements of which each may depend on the rows of those before it, written once as a generator
and run on a caller's connection of either colour, sync or async."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from milepost import sql
from milepost.db import Statement, plain, plain_async, translated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from milepost.db import AsyncConnection, Connection

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Copy:
    """Rows to write with COPY. Each is made while the server writes the ones before it."""

    query: bytes
    types: Sequence[str]
    rows: Iterable[Sequence[Any]]


Steps: TypeAlias = "Generator[Statement | Copy, Any, T]"


def run_steps(
    conn: Connection | AsyncConnection,
    steps: Steps[T],
    schema: str,
    activity: sql.Activity,
    *,
    in_savepoint: bool = False,
) -> T | Awaitable[T]:
    """What the steps return; with an AsyncConnection, await it. `in_savepoint`: if a step fails,
    those before it are undone."""
    errors = translated(schema, activity, conn)
    if isinstance(conn, psycopg.AsyncConnection):
        block = savepoint_async(conn) if in_savepoint else nullcontext()
        return _run_async(conn, steps, errors, block)
    with errors, savepoint(conn) if in_savepoint else nullcontext():
        return drive(steps, partial(_do, conn))


def drive(steps: Generator[S, Any, T], do: Callable[[S], Any]) -> T:
    """Do the steps one after another, each given what the one before it has found."""
    found = None
    while True:
        try:
            step = steps.send(found)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what the generator returns
        found = do(step)


async def drive_async(steps: Generator[S, Any, T], do: Callable[[S], Awaitable[Any]]) -> T:
    found = None
    while True:
        try:
            step = steps.send(found)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what the generator returns
        found = await do(step)


def _do(conn: Connection, step: Statement | Copy) -> Any:
    if not isinstance(step, Copy):
        return plain(conn).execute(*step).fetchall()
    with conn.cursor().copy(step.query) as copy:
        copy.set_types(step.types)
        for row in step.rows:
            copy.write_row(row)
    return None


async def _do_async(conn: AsyncConnection, step: Statement | Copy) -> Any:
    if not isinstance(step, Copy):
        return await (await plain_async(conn).execute(*step)).fetchall()
    async with conn.cursor().copy(step.query) as copy:
        copy.set_types(step.types)
        for row in step.rows:
            await copy.write_row(row)
    return None


async def _run_async(
    conn: AsyncConnection,
    steps: Steps[T],
    errors: AbstractContextManager[None],
    block: AbstractAsyncContextManager[None],
) -> T:
    with errors:
        async with block:
            return await drive_async(steps, partial(_do_async, conn))


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
