"""Engines of SQLAlchemy on another database, without making them again: modules of the application
have imported them, and factories of Sessions refer to them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import make_url
from sqlalchemy.pool import NullPool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.drivers import AnyEngine


@contextmanager
def engine_on(engine: AnyEngine, url: str) -> Iterator[None]:
    """In the block, each of its connections is a new one to this database, and is closed after its
    use: a pool would keep those of an event loop that has ended, and of a database that is dropped.
    """
    bound: Any = getattr(engine, "sync_engine", engine)
    given_url, given_pool, dialect = bound.url, bound.pool, bound.dialect
    bound.url = make_url(url).set(drivername=given_url.drivername)
    positional, named = dialect.create_connect_args(bound.url)
    bound.pool = NullPool(
        lambda: dialect.connect(*positional, **named),
        dialect=dialect,
        # Listeners of the application, and the one that asks the server for its version.
        _dispatch=given_pool.dispatch,
    )
    try:
        yield
    finally:
        bound.url, bound.pool = given_url, given_pool
