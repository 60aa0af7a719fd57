"""Django's connections: `django.db.connection` and `connections[alias]`, with psycopg 3 or psycopg2
inside."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from milepost import sql
from milepost.db import closed_connection, failed_transaction
from milepost.drivers.driver import Driver
from milepost.drivers.psycopg import Psycopg
from milepost.drivers.psycopg2 import Psycopg2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager


def of_django(wrapper: Any) -> Driver:
    if wrapper.vendor != "postgresql":
        raise TypeError(
            f"Django's connection {wrapper.alias!r} is to {wrapper.vendor}: nothing was written. "
            "Milepost uses PostgreSQL. Pass connections[alias] of a database that is."
        )
    _check(wrapper)
    wrapper.ensure_connection()
    if isinstance(wrapper.connection, psycopg.Connection):
        return _Psycopg(wrapper.connection, wrapper)
    return _Psycopg2(wrapper.connection, wrapper)


def _check(wrapper: Any) -> None:
    """What Django checks before each of its own statements."""
    wrapper.validate_thread_sharing()
    if wrapper.closed_in_transaction:
        raise closed_connection()
    if wrapper.needs_rollback:  # an inner atomic() block has failed
        raise failed_transaction()


@contextmanager
def _wrapped(wrapper: Any, inner: AbstractContextManager[None]) -> Iterator[None]:
    """Raise Django's error for one of its driver, as its own statements do. Django then also checks
    whether the connection is still usable."""
    with wrapper.wrap_database_errors, inner:
        yield


@dataclass(slots=True)
class _Psycopg(Psycopg):
    wrapper: Any

    def errors(self, schema: str, activity: sql.Activity) -> AbstractContextManager[None]:
        return _wrapped(self.wrapper, Psycopg.errors(self, schema, activity))


@dataclass(slots=True)
class _Psycopg2(Psycopg2):
    wrapper: Any

    def errors(self, schema: str, activity: sql.Activity) -> AbstractContextManager[None]:
        return _wrapped(self.wrapper, Psycopg2.errors(self, schema, activity))
