"""SQLAlchemy's Engine and AsyncEngine: where they lead, for connections of our own, and connections
of their pool, lent and given back as they were."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import make_conninfo

from milepost import sql
from milepost.db import Connection, one, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.drivers.callers import AnyEngine

# What asyncpg calls differently. Other options of its own mean nothing to libpq.
_LIBPQ_NAMES = {"database": "dbname", "ssl": "sslmode"}


def url_of(engine: AnyEngine) -> str:
    """The engine's URL with its password and parameters, as pairs for libpq. SQLAlchemy's dialect
    reads it, which knows of several hosts and of the names of its driver."""
    if engine.dialect.name != "postgresql":
        raise TypeError(
            f"engine is for {engine.dialect.name}: Milepost uses PostgreSQL. Pass an engine made "
            'by create_engine("postgresql+psycopg://...") or by create_async_engine.'
        )
    _, given = engine.dialect.create_connect_args(engine.url)
    named = {_LIBPQ_NAMES.get(name, name): value for name, value in given.items()}
    known = {name: _joined(value) for name, value in named.items() if name in _libpq_options()}
    return make_conninfo("", **known)


@cache
def _libpq_options() -> frozenset[str]:
    return frozenset(option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults())


def _joined(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def lends(engine: AnyEngine) -> bool:
    """Whether its pool has connections that we can use, and that nobody else uses meanwhile: those
    of psycopg 3, in a pool that gives each to one user."""
    kinds = {kind.__name__ for kind in type(engine.pool).__mro__}
    is_shared = kinds & {"StaticPool", "SingletonThreadPool"}
    return engine.dialect.driver == "psycopg" and not engine.dialect.is_async and not is_shared


@contextmanager
def lent(engine: Any) -> Iterator[Connection]:
    """A connection of the pool in autocommit mode and READ COMMITTED, as `db.connect` makes one. As
    there, what was begun in SQL is committed at the end, or rolled back after an error. It is given
    back only if nothing of it was changed, and closed otherwise."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        conn: Connection = connection.connection.driver_connection
        before = _on_object(conn), _in_session(conn)
        try:
            plain(conn).execute(sql.query("session_read_committed"))
            yield conn
            if not conn.closed:
                conn.commit()
        except BaseException:
            with suppress(psycopg.Error):
                conn.rollback()
            raise
        finally:
            if not _is_as_before(conn, before):
                connection.invalidate()


def _is_as_before(conn: Connection, before: tuple[object, object]) -> bool:
    """After all settings were reset, also those that no view shows."""
    try:
        plain(conn).execute(sql.query("session_settings_reset"))
        return (_on_object(conn), _in_session(conn)) == before
    except psycopg.Error:
        return False


def _on_object(conn: Connection) -> tuple[object, ...]:
    """What a program can set on psycopg's object."""
    return (
        conn.row_factory, conn.cursor_factory, conn.prepare_threshold, conn.autocommit,
        conn.isolation_level, conn.read_only, conn.deferrable,
    )  # fmt: skip


def _in_session(conn: Connection) -> object:
    return one(plain(conn).execute(sql.query("session_state")).fetchone())
