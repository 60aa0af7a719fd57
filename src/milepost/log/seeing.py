"""Looking at a database without being stopped by it: by a lock, a slow query, a missing right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg import errors as pg

from milepost import sql
from milepost.db import translated
from milepost.errors import MilepostError

if TYPE_CHECKING:
    from milepost.db import Connection

LOOK_SECONDS = 30.0
LOCK_SECONDS = 3.0  # at most: whoever looks must not make others queue behind him for long
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something could not be seen, and what to do about it."""

    reason: str
    remedy: str


@contextmanager
def limited(conn: Connection, seconds: float) -> Iterator[None]:
    """A transaction in which each statement may take so long."""
    limits = {
        "statement_timeout": f"{seconds * 1000:.0f}ms",
        "lock_timeout": f"{min(seconds, LOCK_SECONDS) * 1000:.0f}ms",
    }
    with conn.transaction():
        conn.execute(sql.query("time_limits"), limits)
        yield


def see(
    conn: Connection, schema: str, username: str, read: Callable[[], T], seconds: float
) -> tuple[T | None, Reason | None]:
    """What was read; or why the server did not let us. Every other error is raised."""
    try:
        with limited(conn, seconds), translated(schema):
            return read(), None
    except (MilepostError, psycopg.Error) as error:
        # Ours may have been made of the server's.
        for cause in (error, error.__cause__):
            if isinstance(cause, psycopg.Error) and (why := _reason(cause, username)) is not None:
                return None, why
        raise


def _reason(error: psycopg.Error, username: str) -> Reason | None:
    words = error.diag.message_primary or str(error)
    if isinstance(error, pg.InsufficientPrivilege):
        return Reason(f"{words} (role {username})", f"milepost grant {username} --to metrics")
    if isinstance(error, pg.LockNotAvailable):
        return Reason(
            f"{words}: somebody has locked the table", "see who blocks, in the lines of locks"
        )
    if isinstance(error, pg.QueryCanceled):
        return Reason(words, "try again, or with a longer --look-seconds")
    return None
