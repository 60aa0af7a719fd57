"""Every kind of object that `append` and `put` take, with the few things a test does to it. What is
async runs on one event loop, so that one test serves both colours."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlencode

import asyncpg
import psycopg
import psycopg2
import sqlmodel
from django.apps import apps
from django.conf import UserSettingsHolder, global_settings, settings
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL, Engine, create_engine, make_url, text
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlmodel.ext.asyncio.session import AsyncSession as SqlmodelAsyncSession

AUTOCOMMIT: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"}


class Kind(ABC):
    """`given` is what is passed to `append`. Begun by its first statement, unless autocommit."""

    given: Any
    may_be_reopened = False  # a closed one opens again with its next statement
    recovers = True  # from a lost connection, by a rollback

    def __init__(self, url: str, *, autocommit: bool = False) -> None:
        self.runner = asyncio.Runner()
        self.open(url, autocommit)

    def run(self, result: Any) -> Any:
        """What was returned or, of an async kind, awaited."""
        return self.runner.run(_awaited(result)) if inspect.isawaitable(result) else result

    @abstractmethod
    def open(self, url: str, autocommit: bool) -> None: ...
    @abstractmethod
    def execute(self, query: str) -> None: ...
    @abstractmethod
    def commit(self) -> None: ...
    @abstractmethod
    def rollback(self) -> None: ...
    @abstractmethod
    def close(self) -> None: ...

    def undone(self, work: Callable[[], object]) -> None:
        """In a savepoint that is rolled back."""
        self.execute("savepoint theirs")
        work()
        self.execute("rollback to savepoint theirs")

    def dispose(self) -> None:
        with suppress(psycopg2.InterfaceError):
            self.close()
        self.runner.close()


async def _awaited(result: Any) -> Any:
    return await result


class Psycopg(Kind):
    recovers = False

    def open(self, url: str, autocommit: bool) -> None:
        self.given = psycopg.connect(url, autocommit=autocommit)

    def execute(self, query: str) -> None:
        self.run(self.given.execute(query))

    def commit(self) -> None:
        self.run(self.given.commit())

    def rollback(self) -> None:
        self.run(self.given.rollback())

    def close(self) -> None:
        self.run(self.given.close())


class AsyncPsycopg(Psycopg):
    def open(self, url: str, autocommit: bool) -> None:
        self.given = self.run(psycopg.AsyncConnection.connect(url, autocommit=autocommit))


class Psycopg2(Psycopg):
    def open(self, url: str, autocommit: bool) -> None:
        self.given = psycopg2.connect(url)
        self.given.autocommit = autocommit

    def execute(self, query: str) -> None:
        with self.given.cursor() as cursor:
            cursor.execute(query)


class Asyncpg(Kind):
    """Its transactions are objects. One that was not begun is begun here, as its user would."""

    recovers = False
    transaction: Any = None

    def open(self, url: str, autocommit: bool) -> None:
        self.given = self.run(self.connect(url))
        self.is_autocommit = autocommit
        self._begin()

    async def connect(self, url: str) -> Any:
        return await asyncpg.connect(**asyncpg_parts(url))

    def _begin(self) -> None:
        if not self.is_autocommit:
            self.transaction = self.given.transaction()
            self.run(self.transaction.start())

    def execute(self, query: str) -> None:
        self.run(self.given.execute(query))

    def commit(self) -> None:
        self.run(self.transaction.commit())
        self._begin()

    def rollback(self) -> None:
        self.run(self.transaction.rollback())
        self._begin()

    def undone(self, work: Callable[[], object]) -> None:
        savepoint = self.given.transaction()
        self.run(savepoint.start())
        work()
        self.run(savepoint.rollback())

    def close(self) -> None:
        self.run(self.given.close())


class PooledAsyncpg(Asyncpg):
    async def connect(self, url: str) -> Any:
        self.pool = await asyncpg.create_pool(**asyncpg_parts(url), min_size=1, max_size=1)
        return await self.pool.acquire()

    def close(self) -> None:
        self.run(self.pool.release(self.given))

    def dispose(self) -> None:
        self.pool.terminate()
        super().dispose()


class Sqlalchemy(Kind):
    """Of which `undone` uses `begin_nested`."""

    driver = "psycopg"
    engine: Engine | AsyncEngine

    def open(self, url: str, autocommit: bool) -> None:
        options = AUTOCOMMIT if autocommit else {}
        self.engine = self.make_engine(sqlalchemy_url(url, self.driver), **options)
        self.given = self.run(self.connect())

    def make_engine(self, url: Any, **options: Any) -> Engine | AsyncEngine:
        return create_engine(url, **options)

    @abstractmethod
    def connect(self) -> Any: ...

    def execute(self, query: str) -> None:
        self.run(self.given.execute(text(query)))

    def commit(self) -> None:
        self.run(self.given.commit())

    def rollback(self) -> None:
        self.run(self.given.rollback())

    def undone(self, work: Callable[[], object]) -> None:
        savepoint = self.given.begin_nested()
        savepoint = self.run(savepoint) if inspect.isawaitable(savepoint) else savepoint
        work()
        self.run(savepoint.rollback())

    def close(self) -> None:
        self.run(self.given.close())

    def dispose(self) -> None:
        self.run(self.given.close())
        self.run(self.engine.dispose())
        super().dispose()


class SqlalchemySession(Sqlalchemy):
    may_be_reopened = True

    def connect(self) -> Any:
        return Session(self.engine)  # type: ignore[arg-type]  # an Engine


class ScopedSession(SqlalchemySession):
    def connect(self) -> Any:
        return scoped_session(sessionmaker(self.engine))  # type: ignore[arg-type]  # as above


class SqlmodelSession(SqlalchemySession):
    def connect(self) -> Any:
        return sqlmodel.Session(self.engine)  # type: ignore[arg-type]  # as above

    def execute(self, query: str) -> None:
        self.given.connection().execute(text(query))


class SqlalchemyConnection(Sqlalchemy):
    def connect(self) -> Any:
        return self.engine.connect()


class Psycopg2Session(SqlalchemySession):
    driver = "psycopg2"


class Psycopg2Connection(SqlalchemyConnection):
    driver = "psycopg2"


class AsyncSqlalchemy(Sqlalchemy):
    def make_engine(self, url: Any, **options: Any) -> AsyncEngine:
        return create_async_engine(url, **options)


class AsyncSqlalchemySession(AsyncSqlalchemy, SqlalchemySession):
    def connect(self) -> Any:
        return AsyncSession(self.engine)  # type: ignore[arg-type]  # an AsyncEngine


class AsyncScopedSession(AsyncSqlalchemy, SqlalchemySession):
    def connect(self) -> Any:
        maker = async_sessionmaker(self.engine)  # type: ignore[arg-type]  # as above
        return async_scoped_session(maker, scopefunc=lambda: self)


class AsyncSqlmodelSession(AsyncSqlalchemy, SqlalchemySession):
    def connect(self) -> Any:
        return SqlmodelAsyncSession(self.engine)  # type: ignore[arg-type]  # as above

    def execute(self, query: str) -> None:
        self.run(self.run(self.given.connection()).execute(text(query)))


class AsyncSqlalchemyConnection(AsyncSqlalchemy, SqlalchemyConnection):
    def connect(self) -> Coroutine[Any, Any, Any]:
        async def connected() -> Any:
            return await self.engine.connect()  # type: ignore[misc]  # an AsyncEngine

        return connected()


class AsyncpgSession(AsyncSqlalchemySession):
    driver = "asyncpg"


class AsyncpgConnection(AsyncSqlalchemyConnection):
    driver = "asyncpg"


class Django(Kind):
    """A database of Django, without `settings.DATABASES`. Blocks are of `atomic()`."""

    may_be_reopened = True
    numbers = itertools.count()

    def open(self, url: str, autocommit: bool) -> None:
        self.unconfigured = settings._wrapped, apps.ready
        settings._wrapped = UserSettingsHolder(global_settings)
        apps.ready = True  # Django warns about statements before that
        from django.db import connections
        from django.db.backends.postgresql.base import DatabaseWrapper

        self.alias = f"milepost_{next(self.numbers)}"
        self.is_autocommit = autocommit
        self.given = DatabaseWrapper(django_settings(url), self.alias)
        connections[self.alias] = self.given
        self._begin()

    def _begin(self) -> None:
        from django.db import transaction

        if not self.is_autocommit:
            self.block = transaction.atomic(using=self.alias)
            self.block.__enter__()

    def execute(self, query: str) -> None:
        with self.given.cursor() as cursor:
            cursor.execute(query)

    def commit(self) -> None:
        self.block.__exit__(None, None, None)
        self._begin()

    def rollback(self) -> None:
        self.block.__exit__(ValueError, ValueError(), None)
        self._begin()

    def undone(self, work: Callable[[], object]) -> None:
        from django.db import transaction

        with transaction.atomic(using=self.alias):
            work()
            transaction.set_rollback(True, using=self.alias)

    def close(self) -> None:
        self.given.close()

    def dispose(self) -> None:
        from django.db import connections

        super().dispose()
        del connections[self.alias]
        settings._wrapped, apps.ready = self.unconfigured


def parts_of(url: str) -> dict[str, Any]:
    return {key: value for key, value in conninfo_to_dict(url).items() if value is not None}


def asyncpg_parts(url: str) -> dict[str, Any]:
    parts = parts_of(url)
    return {"database": parts.pop("dbname"), **parts}


def as_url(url: str) -> str:
    """With the host as a parameter: it may be the directory of a socket."""
    parts = parts_of(url)
    who = ":".join(quote(str(parts.pop(key)), "") for key in ("user", "password") if key in parts)
    return f"postgresql://{who}@/{quote(parts.pop('dbname'), '')}?{urlencode(parts)}"


def sqlalchemy_url(url: str, driver: str = "psycopg") -> URL:
    return make_url(as_url(url)).set(drivername=f"postgresql+{driver}")


def django_settings(url: str) -> dict[str, Any]:
    parts = parts_of(url)
    names = {
        "NAME": "dbname",
        "USER": "user",
        "PASSWORD": "password",
        "HOST": "host",
        "PORT": "port",
    }
    given = {name: parts.get(key) or "" for name, key in names.items()}
    return given | {
        "ENGINE": "django.db.backends.postgresql",
        "OPTIONS": {},
        "TIME_ZONE": None,
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": False,
        "AUTOCOMMIT": True,
        "ATOMIC_REQUESTS": False,
        "TEST": {"CHARSET": None, "COLLATION": None, "MIGRATE": True, "MIRROR": None, "NAME": None},
    }


KINDS: list[type[Kind]] = [
    Psycopg, AsyncPsycopg, Psycopg2, Asyncpg, PooledAsyncpg, SqlalchemySession, ScopedSession,
    SqlmodelSession, SqlalchemyConnection, Psycopg2Session, Psycopg2Connection,
    AsyncSqlalchemySession, AsyncScopedSession, AsyncSqlmodelSession, AsyncSqlalchemyConnection,
    AsyncpgSession, AsyncpgConnection, Django,
]  # fmt: skip
