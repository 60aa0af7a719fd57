"""SQLAlchemy: Session and Connection, `scoped_session`, their async counterparts, and SQLModel's.

With psycopg 3 inside, its connection is used directly, after SQLAlchemy has begun its transaction.
Other drivers are used through SQLAlchemy, which begins their transactions itself.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from milepost import sql
from milepost.db import closed_connection, translated
from milepost.drivers.asyncpg import AsyncpgInfo
from milepost.drivers.driver import AsyncDriver, Copy, Driver, block, block_async
from milepost.drivers.parameters import interpolated, numbered, unchanged
from milepost.drivers.psycopg import AsyncPsycopg, Psycopg
from milepost.drivers.psycopg2 import would_commit
from milepost.errors import ConnectionUnusable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from milepost.db import Info, Statement
    from milepost.drivers.parameters import Paramstyle


def of_session(session: Any) -> Driver:
    try:
        connection = session.connection()
        raw = _begun(connection)
    except _refusal() as exc:
        raise _unusable(session, exc) from exc
    return _of_raw(connection, raw)


def of_connection(connection: Any) -> Driver:
    try:
        raw = _begun(connection)
    except _refusal() as exc:
        raise _unusable(connection, exc) from exc
    return _of_raw(connection, raw)


async def of_async_session(session: Any) -> AsyncDriver:
    try:
        connection = await session.connection()
    except _refusal() as exc:
        raise _unusable(session, exc) from exc
    return await of_async_connection(connection)


async def of_async_connection(connection: Any) -> AsyncDriver:
    try:
        raw = await connection.run_sync(_begun)
    except _refusal() as exc:
        raise _unusable(connection, exc) from exc
    if isinstance(raw, psycopg.AsyncConnection):
        return _AsyncPsycopg(raw, connection)
    return _AsyncStatements(connection, _dialect(connection.sync_connection, raw))


def _of_raw(connection: Any, raw: Any) -> Driver:
    if isinstance(raw, psycopg.Connection):
        return _Psycopg(raw, connection)
    return _Statements(connection, _dialect(connection, raw))


def _begun(connection: Any) -> Any:
    """The connection of the driver. SQLAlchemy commits only what it has begun, which it does with
    each statement of its own."""
    if not connection.in_transaction():
        connection.begin()
    raw = connection.connection.driver_connection
    if isinstance(raw, psycopg.BaseConnection) and raw.closed:
        connection.invalidate()  # else SQLAlchemy would fail to roll back
        raise closed_connection()
    return raw


def _refusal() -> type[Exception]:
    """How SQLAlchemy refuses what is closed, or has to be rolled back first."""
    error: type[Exception] = sys.modules["sqlalchemy.exc"].InvalidRequestError
    return error


def _unusable(given: Any, exc: Exception) -> ConnectionUnusable:
    kind = type(given).__name__
    return ConnectionUnusable(f"SQLAlchemy refuses this {kind}: nothing was written. {exc}")


@dataclass(frozen=True, slots=True)
class _Dialect:
    """How a driver is used through SQLAlchemy."""

    paramstyle: Paramstyle
    info: Callable[[], Info]
    would_commit: Callable[[], bool]


def _dialect(connection: Any, raw: Any) -> _Dialect:
    kind = connection.dialect.driver if connection.dialect.name == "postgresql" else None
    if kind == "psycopg2":
        return _Dialect(interpolated, lambda: raw.info, partial(would_commit, raw))
    if kind == "asyncpg":
        return _Dialect(numbered, partial(AsyncpgInfo, raw), partial(_asyncpg_commits, connection))
    if isinstance(raw, psycopg.AsyncConnection):  # in the function of a `run_sync`
        return _Dialect(unchanged, lambda: raw.info, partial(_psycopg_commits, raw))
    name = f"{connection.dialect.name}+{connection.dialect.driver}"
    raise TypeError(
        f"SQLAlchemy is connected with {name}: nothing was written. Milepost uses PostgreSQL, with "
        "postgresql+psycopg, postgresql+asyncpg or postgresql+psycopg2."
    )


def _asyncpg_commits(connection: Any) -> bool:
    """SQLAlchemy's adapter knows of autocommit, asyncpg of a transaction that was begun in SQL."""
    adapted = connection.connection
    is_open = adapted.driver_connection.is_in_transaction()
    return bool(adapted.dbapi_connection.autocommit and not is_open)


def _psycopg_commits(raw: psycopg.AsyncConnection[Any]) -> bool:
    return raw.autocommit and raw.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def _of_driver(exc: Any) -> BaseException:
    """What SQLAlchemy has wrapped; asyncpg's error twice."""
    error: BaseException = exc.orig
    return error if isinstance(error, psycopg.Error) else error.__cause__ or error


@contextmanager
def _errors(
    driver: Psycopg | AsyncPsycopg, connection: Any, schema: str, activity: sql.Activity
) -> Iterator[None]:
    """Our errors, where we have one; else SQLAlchemy's for that of psycopg, as its own statements
    raise. One block, and not one in another: it is entered for each append."""
    try:
        yield
    except psycopg.Error as exc:
        if driver.conn.closed and isinstance(driver, Psycopg):
            connection.invalidate(exc)
        try:
            with translated(schema, activity, driver.conn):
                raise
        except psycopg.Error:
            raise _wrapped(exc, connection) from exc


def _wrapped(exc: psycopg.Error, connection: Any) -> Exception:
    wrapped: Exception = sys.modules["sqlalchemy.exc"].DBAPIError.instance(
        None,
        None,
        exc,
        psycopg.Error,
        connection_invalidated=connection.invalidated,
        dialect=connection.dialect,
    )
    return wrapped


@dataclass(slots=True)
class _Psycopg(Psycopg):
    connection: Any

    def errors(self, schema: str, activity: sql.Activity) -> AbstractContextManager[None]:
        return _errors(self, self.connection, schema, activity)


@dataclass(slots=True)
class _AsyncPsycopg(AsyncPsycopg):
    connection: Any

    def errors(self, schema: str, activity: sql.Activity) -> AbstractContextManager[None]:
        return _errors(self, self.connection.sync_connection, schema, activity)

    async def do(self, step: Statement | Copy) -> Any:
        try:
            return await AsyncPsycopg.do(self, step)
        except psycopg.Error as exc:
            if self.conn.closed:
                await self.connection.invalidate(exc)
            raise


def _failed() -> type[Exception]:
    error: type[Exception] = sys.modules["sqlalchemy.exc"].DBAPIError
    return error


@dataclass(slots=True)
class _Statements(Driver):
    """A Connection, for one statement after another."""

    connection: Any
    dialect: _Dialect

    def check(self) -> None:
        """It was usable a moment ago. Where its transaction has failed, the server refuses."""

    def errors(self, schema: str, activity: sql.Activity) -> AbstractContextManager[None]:
        who = self.dialect.info()
        return translated(schema, activity, who, errors=_failed(), of_driver=_of_driver)

    def savepoint(self) -> AbstractContextManager[None]:
        return block(self, _failed(), is_outermost=self.dialect.would_commit())

    def do(self, step: Statement | Copy) -> Any:
        query, parameters = self.dialect.paramstyle(step)
        result = self.connection.exec_driver_sql(query, parameters or None)
        return result.fetchall() if result.returns_rows else None


@dataclass(slots=True)
class _AsyncStatements(AsyncDriver):
    connection: Any
    dialect: _Dialect

    def check(self) -> None: ...

    def errors(self, schema: str, activity: sql.Activity) -> AbstractContextManager[None]:
        who = self.dialect.info()
        return translated(schema, activity, who, errors=_failed(), of_driver=_of_driver)

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        return block_async(self, _failed(), is_outermost=self.dialect.would_commit())

    async def do(self, step: Statement | Copy) -> Any:
        query, parameters = self.dialect.paramstyle(step)
        result = await self.connection.exec_driver_sql(query, parameters or None)
        return result.fetchall() if result.returns_rows else None
