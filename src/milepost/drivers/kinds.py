"""Which driver an object of the caller needs. It is known by the names of its classes: to import a
library only to compare with its classes would import it into programs that do not use it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg

from milepost.drivers import sqlalchemy
from milepost.drivers.asyncpg import Asyncpg
from milepost.drivers.django import of_django
from milepost.drivers.driver import AsyncDriver, Driver, PendingDriver
from milepost.drivers.psycopg import AsyncPsycopg, Psycopg
from milepost.drivers.psycopg2 import Psycopg2

if TYPE_CHECKING:
    from milepost.drivers.callers import AnyAsyncConnection, AnyConnection

_Resolved: TypeAlias = Driver | AsyncDriver | PendingDriver


def _pending(resolve: Callable[[Any], Any]) -> Callable[[Any], PendingDriver]:
    return lambda given: partial(resolve, given)


_KINDS: dict[str, Callable[[Any], _Resolved]] = {
    "sqlalchemy.orm.session.Session": sqlalchemy.of_session,
    "sqlalchemy.orm.scoping.scoped_session": sqlalchemy.of_session,
    "sqlalchemy.engine.base.Connection": sqlalchemy.of_connection,
    "sqlalchemy.ext.asyncio.session.AsyncSession": _pending(sqlalchemy.of_async_session),
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": _pending(sqlalchemy.of_async_session),
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": _pending(sqlalchemy.of_async_connection),
    "asyncpg.connection.Connection": Asyncpg,
    "asyncpg.pool.PoolConnectionProxy": Asyncpg,
    "psycopg2.extensions.connection": Psycopg2,
    "django.db.backends.base.base.BaseDatabaseWrapper": of_django,
    "django.utils.connection.ConnectionProxy": of_django,
}


def driver_of(given: AnyConnection | AnyAsyncConnection) -> _Resolved:
    """For an AsyncSession or an AsyncConnection of SQLAlchemy, a function to be awaited."""
    if isinstance(given, psycopg.Connection):
        return Psycopg(given)
    if isinstance(given, psycopg.AsyncConnection):
        return AsyncPsycopg(given)
    # Not type(): a proxy shows the class of what it wraps.
    kind = _kind_of(given.__class__)
    if kind is None:
        raise TypeError(
            f"The first argument is a {type(given).__name__}: expected a psycopg connection, "
            "one of psycopg2, asyncpg or Django, or a Session, Connection, AsyncSession or "
            "AsyncConnection of SQLAlchemy. Nothing was written. Pass the one in whose transaction "
            "it belongs, as in mp.put(conn, job)."
        )
    return kind(given)


@lru_cache(maxsize=256)
def _kind_of(given: type) -> Callable[[Any], _Resolved] | None:
    names = (f"{each.__module__}.{each.__qualname__}" for each in given.__mro__)
    return next((_KINDS[name] for name in names if name in _KINDS), None)
