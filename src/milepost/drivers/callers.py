"""What callers may pass as their connection, for type checkers.

Protocols, and not the classes themselves: a type checker treats the classes of a library that is
not installed as Any, and could then not tell `append(conn)` from `await append(conn)`. Each has
only what distinguishes it. At run time, `kinds` decides.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol, TypeAlias

from milepost.db import AsyncConnection, Connection


class _Rows(Protocol):
    def fetchall(self) -> Any: ...


class SqlalchemyConnection(Protocol):
    def exec_driver_sql(self, statement: str, /) -> _Rows: ...
    def begin_nested(self) -> Any: ...


class SqlalchemySession(Protocol):
    """Session, `scoped_session`, and the Session of SQLModel."""

    def connection(self) -> SqlalchemyConnection: ...
    def flush(self) -> None: ...


class SqlalchemyAsyncConnection(Protocol):
    def exec_driver_sql(self, statement: str, /) -> Awaitable[_Rows]: ...
    def begin_nested(self) -> Any: ...


class SqlalchemyAsyncSession(Protocol):
    """AsyncSession and `async_scoped_session`."""

    def connection(self) -> Awaitable[SqlalchemyAsyncConnection]: ...
    def flush(self) -> Awaitable[None]: ...


class AsyncpgConnection(Protocol):
    """A connection of asyncpg, or the proxy that its pool gives."""

    def is_in_transaction(self) -> bool: ...
    def fetch(self, query: str, /, *args: Any) -> Awaitable[Any]: ...


class Psycopg2Connection(Protocol):
    def get_transaction_status(self) -> int: ...
    def cursor(self) -> Any: ...


class DjangoConnection(Protocol):
    """`django.db.connection`, or `connections[alias]`."""

    def ensure_connection(self) -> None: ...
    def validate_thread_sharing(self) -> None: ...


class AnyEngine(Protocol):
    """An Engine or AsyncEngine of SQLAlchemy."""

    @property
    def url(self) -> Any: ...
    @property
    def dialect(self) -> Any: ...
    @property
    def pool(self) -> Any: ...


AnyConnection: TypeAlias = (
    "Connection | SqlalchemySession | SqlalchemyConnection | Psycopg2Connection | DjangoConnection"
)
AnyAsyncConnection: TypeAlias = (
    "AsyncConnection | SqlalchemyAsyncSession | SqlalchemyAsyncConnection | AsyncpgConnection"
)
