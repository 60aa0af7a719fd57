"""Hands a psycopg connection that is in a transaction to SQLAlchemy, which must neither end the
transaction nor leave anything on the connection.

SQLAlchemy gets a DBAPI connection whose `commit` raises and whose `rollback` is only noted: after a
failed flush it rolls back by itself, which must not hide the failure. Its dialect registers nothing
on the connection. Converters of JSON and addresses of the user's engine are set for each cursor.

An engine is made once and keeps what SQLAlchemy has found out about the server and has compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from psycopg.rows import tuple_row
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg.types.string import TextLoader
from sqlalchemy import NullPool, create_engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg, PGDialectAsync_psycopg

from milepost.errors import SessionCallRefused

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

    from milepost.db import AsyncConnection, Connection

URL = "postgresql+milepost://"
ADDRESSES = ("inet", "cidr")
OnCursor: TypeAlias = Callable[[Any], None]


class Handed:
    """The connection, as SQLAlchemy gets it. What it does not define is psycopg's."""

    __slots__ = ("_on_cursor", "conn", "is_open", "refused")

    def __init__(self, conn: Connection | AsyncConnection, on_cursor: OnCursor | None) -> None:
        self.conn = conn
        self._on_cursor = on_cursor
        self.is_open = False  # while the handlers run
        self.refused: SessionCallRefused | None = None  # the first call that was

    def __getattr__(self, name: str) -> Any:
        return getattr(self.conn, name)

    def cursor(self, *arguments: Any, **options: Any) -> Any:
        """Of plain rows, whatever the connection's own are."""
        cursor = self.conn.cursor(*arguments, row_factory=tuple_row, **options)
        if self._on_cursor is not None:
            self._on_cursor(cursor)
        return cursor

    def refuse(self, call: str) -> NoReturn:
        self.note(call)
        raise SessionCallRefused(call)

    def note(self, call: str) -> None:
        if self.is_open:
            self.refused = self.refused or SessionCallRefused(call)

    def raise_refused(self) -> None:
        """The handler may have caught it, or the Session may have rolled back by itself after a
        failed flush: then what it believes undone is still in the transaction."""
        if self.refused is not None:
            raise self.refused


class HandedSync(Handed):
    __slots__ = ()

    def commit(self) -> None:
        self.refuse("commit()")

    def rollback(self) -> None:
        self.note("rollback()")

    def close(self) -> None:
        """The lease keeps the connection."""


class HandedAsync(Handed):
    __slots__ = ()

    async def commit(self) -> None:
        self.refuse("commit()")

    async def rollback(self) -> None:
        self.note("rollback()")

    async def close(self) -> None:
        """The lease keeps the connection."""


class _LeavesNothing:
    """What both dialects do not do to the connection."""

    def on_connect(self) -> None:
        """No handlers of notices."""

    def set_isolation_level(self, *_: object) -> NoReturn:
        raise SessionCallRefused("execution_options(isolation_level=...)")

    def set_readonly(self, *_: object) -> NoReturn:
        raise SessionCallRefused("execution_options(postgresql_readonly=...)")

    def set_deferrable(self, *_: object) -> NoReturn:
        raise SessionCallRefused("execution_options(postgresql_deferrable=...)")


class HandedDialect(_LeavesNothing, PGDialect_psycopg):
    supports_statement_cache = True

    def get_driver_connection(self, connection: Any) -> Any:
        return connection.conn

    @classmethod
    def get_async_dialect_cls(cls, _url: Any) -> Any:
        return HandedAsyncDialect


class HandedAsyncDialect(_LeavesNothing, PGDialectAsync_psycopg):
    supports_statement_cache = True

    def get_driver_connection(self, connection: Any) -> Any:
        return connection.driver_connection.conn


registry.register("postgresql.milepost", __name__, "HandedDialect")
_handed: ContextVar[Handed] = ContextVar("milepost_handed")


@contextmanager
def handing(handed: Handed) -> Iterator[None]:
    """In the block an engine connects to what is handed."""
    before = _handed.set(handed)
    try:
        yield
    finally:
        _handed.reset(before)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the user's engine does in its own way, and a Session of a handler does too."""

    json_serializer: Callable[[Any], str] | None = None
    json_deserializer: Callable[[str | bytes], Any] | None = None
    native_inet_types: bool | None = None
    hide_parameters: bool = False  # in errors
    schemas: dict[str | None, str | None] = field(default_factory=dict)  # schema_translate_map

    @classmethod
    def of(cls, bind: Any) -> EngineSettings:
        """Of an engine or a connection, if the factory has one."""
        if (dialect := getattr(bind, "dialect", None)) is None:
            return cls()
        return cls(
            getattr(dialect, "_json_serializer", None),
            getattr(dialect, "_json_deserializer", None),
            getattr(dialect, "_native_inet_types", None),
            bool(getattr(getattr(bind, "sync_engine", bind), "hide_parameters", False)),
            dict(bind.get_execution_options().get("schema_translate_map") or {}),
        )

    @property
    def on_cursor(self) -> OnCursor | None:
        """A dialect registers these on its connections; here the connection is not its own."""
        steps: list[OnCursor] = []
        if (loads := self.json_deserializer) is not None:
            steps.append(partial(set_json_loads, loads))
        if (dumps := self.json_serializer) is not None:
            steps.append(partial(set_json_dumps, dumps))
        if self.native_inet_types is False:
            steps.append(_addresses_as_text)
        return partial(_all, steps) if steps else None

    def engine(self) -> Engine:
        return create_engine(URL, creator=_handed.get, **self._options())

    def async_engine(self) -> AsyncEngine:
        from sqlalchemy.ext.asyncio import create_async_engine  # needs greenlet

        async def handed() -> Any:
            return _handed.get()

        return create_async_engine(URL, async_creator=handed, **self._options())

    def _options(self) -> dict[str, Any]:
        """Without native hstore, which is registered on the connection: SQLAlchemy converts it."""
        schemas = {"schema_translate_map": self.schemas} if self.schemas else {}
        return {
            "poolclass": NullPool,
            "pool_reset_on_return": None,
            "use_native_hstore": False,
            "json_serializer": self.json_serializer,
            "json_deserializer": self.json_deserializer,
            "native_inet_types": self.native_inet_types,
            "hide_parameters": self.hide_parameters,
            "execution_options": schemas,
        }


def _addresses_as_text(cursor: Any) -> None:
    for name in ADDRESSES:
        cursor.adapters.register_loader(name, TextLoader)


def _all(steps: list[OnCursor], cursor: Any) -> None:
    for step in steps:
        step(cursor)
