"""Read the facts of a diagnosis.

This works on every database, migrated or not, restored or not, and with every role. A lock, a slow
query or a missing privilege does not stop it: what cannot be read is None, and `unseen` says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg import errors as pg

from milepost import db, sql
from milepost.errors import LogRestored, MilepostError, ReadOnStandby
from milepost.log.diagnosis import (
    Contents,
    Diagnosis,
    Holder,
    LockSession,
    Problem,
    Server,
    first_sentence,
)
from milepost.log.read import Horizon, horizon
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.log.diagnosis import Area

LOOK_SECONDS = 30.0
LOCK_SECONDS = 3.0  # at most: others wait behind a session that waits for a lock
# Counting fewer rows than this takes a few milliseconds.
MAX_COUNTED = 10_000
# An appender that is committing has, for an instant, a lock and no transaction. One that has no
# transaction at every look holds its lock outside of any transaction.
FURTHER_LOOKS = 3
BETWEEN_LOOKS_SECONDS = 0.1
T = TypeVar("T")


def diagnose(
    conn: Connection, schema: str = sql.DEFAULT_SCHEMA, look_seconds: float = LOOK_SECONDS
) -> Diagnosis:
    """Raises if nothing can be read: no server, or no privilege on the schema at all.
    `look_seconds` is how long each look may take, so that a lock does not stop the diagnosis."""
    with limited(conn, look_seconds):
        (server,) = db.fetch_records(conn, schema, "diagnosis_server", Server)
        migration = db.applied_number(conn, schema)
        oldest_code = 0 if migration is None else db.oldest_code(conn, schema)
    found = Diagnosis(
        schema, migration, sql.migrations()[-1].number, server, oldest_code=oldest_code
    )
    if not found.fits:
        return found
    viewer = Viewer(conn, schema, server.username, look_seconds)
    contents = viewer.see("log", _contents)
    seen, refusal = viewer.see("horizon", _horizon) or (None, None)
    holders = without_ending(lambda: viewer.see("horizon", _holders) or ())
    hidden = 0
    if contents is not None and contents.order == "transaction":
        hidden = viewer.see("horizon", _hidden) or 0
    locks = viewer.see("locks", _locks) or ()
    return replace(
        found, contents=contents, horizon=seen, refusal=refusal, holders=holders,
        hidden_transactions=hidden, locks=locks, unseen=tuple(viewer.unseen),
    )  # fmt: skip


@contextmanager
def limited(conn: Connection, seconds: float) -> Iterator[None]:
    """A transaction with a time limit for each statement."""
    limits = {
        "statement_timeout": f"{seconds * 1000:.0f}ms",
        "lock_timeout": f"{min(seconds, LOCK_SECONDS) * 1000:.0f}ms",
    }
    with conn.transaction():
        conn.execute(sql.query("time_limits"), limits)
        yield


@dataclass(slots=True)
class Viewer:
    """Reads facts one by one, each in its own transaction with a time limit."""

    conn: Connection
    schema: str
    username: str
    seconds: float
    unseen: list[Problem] = field(default_factory=list, init=False)

    def see(self, area: Area, read: Callable[[Connection, str], T]) -> T | None:
        """What was read; None if the server refused it, and then `unseen` has the reason. Every
        other error is raised."""
        try:
            with limited(self.conn, self.seconds), db.translated(self.schema):
                return read(self.conn, self.schema)
        except (MilepostError, psycopg.Error) as error:
            # Our error may have been translated from one of the server's.
            for cause in (error, error.__cause__):
                if isinstance(cause, psycopg.Error) and (why := _reason(cause, self.username)):
                    reason, remedy = why
                    what = f"Could not check: {reason}"
                    self.unseen.append(Problem(area, what, remedy, is_unknown=True))
                    return None
            raise


def _reason(error: psycopg.Error, username: str) -> tuple[str, str] | None:
    """Why something could not be seen, and what to do about it."""
    words = error.diag.message_primary or str(error)
    if isinstance(error, pg.InsufficientPrivilege):
        return f"{words} (role {username})", f"milepost grant {quote(username)} --to metrics"
    if isinstance(error, pg.LockNotAvailable):
        reason = f"{words}: another session has locked the table"
        return reason, "see the blocking sessions under locks"
    if isinstance(error, pg.QueryCanceled):
        return words, "retry, or pass a longer --look-seconds"
    return None


def without_ending(look: Callable[[], tuple[Holder, ...]]) -> tuple[Holder, ...]:
    """The holders, without those that were just ending."""
    holders = look()
    for _ in range(FURTHER_LOOKS):
        if not any(holder.is_outside_transactions for holder in holders):
            break
        time.sleep(BETWEEN_LOOKS_SECONDS)
        again = {holder.pid for holder in look() if holder.is_outside_transactions}
        holders = tuple(h for h in holders if not h.is_outside_transactions or h.pid in again)
    return holders


def rebase(conn: Connection, schema: str = sql.DEFAULT_SCHEMA) -> str:
    """Make a restored log usable here; returns what was done. Safe to repeat."""
    return str(db.fetch_one(conn, schema, "rebase")[0])


def _contents(conn: Connection, schema: str) -> Contents:
    row = db.fetch_one(conn, schema, "diagnosis_log", max_counted=MAX_COUNTED)
    order, messages, is_exact, transaction_id, position, age_seconds = row
    newest = None if position is None else Position(transaction_id, position)
    incomplete = tuple(name for (name,) in db.fetch_all(conn, schema, "diagnosis_indexes"))
    return Contents(order, messages, is_exact, newest, age_seconds, incomplete)


def _horizon(conn: Connection, schema: str) -> tuple[Horizon | None, str | None]:
    """The horizon, or why the log cannot be read here."""
    try:
        with conn.transaction():
            return horizon(conn, schema), None
    except (LogRestored, ReadOnStandby) as refused:
        return None, first_sentence(refused)


def _holders(conn: Connection, schema: str) -> tuple[Holder, ...]:
    return tuple(db.fetch_records(conn, schema, "diagnosis_holders", Holder))


def _hidden(conn: Connection, schema: str) -> int:
    return int(db.fetch_one(conn, schema, "diagnosis_hidden")[0])


def _locks(conn: Connection, schema: str) -> tuple[LockSession, ...]:
    return tuple(LockSession(*row) for row in db.fetch_all(conn, schema, "diagnosis_locks"))
