"""The indexes of the log that are created only on request: those who need them pay for them.

They are created CONCURRENTLY. Appenders and readers never wait for that, but PostgreSQL waits for
all transactions that were open before, and it cannot happen in a transaction. An interruption
leaves an index that is not valid; the next call removes it and creates it again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import errors as pg

from milepost import db, sql
from milepost.errors import DuplicateIds, MigrationBlocked, UnfitPooler
from milepost.migrate import PAUSES, Step, find_blockers

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.migrate import OnWait


@dataclass(frozen=True, slots=True)
class OptionalIndex:
    """Its name, and the queries that create and drop it."""

    name: str
    create: str
    drop: str

    def step(self, schema: str) -> Step:
        return self._step(f"index {self.name}", self.create, schema)

    def cleaning(self, schema: str) -> Step:
        """Of what an interruption has left."""
        return self._step(f"index {self.name}, which is not complete", self.drop, schema)

    def _step(self, name: str, query: str, schema: str) -> Step:
        return Step(name, sql.query(query, schema).decode(), is_transaction=False)


KEY_INDEX = OptionalIndex("messages_key", "index_key", "index_drop_key")
ID_INDEX = OptionalIndex("messages_id", "index_id", "index_drop_id")


def wanted(*, key: bool, id_: bool) -> list[OptionalIndex]:
    return [index for index, is_wanted in ((KEY_INDEX, key), (ID_INDEX, id_)) if is_wanted]


def plan(conn: Connection, schema: str, indexes: Sequence[OptionalIndex]) -> list[Step]:
    """What is missing."""
    return [step for index in indexes for step in _plan(conn, schema, index)]


def _plan(conn: Connection, schema: str, index: OptionalIndex) -> list[Step]:
    is_valid = _is_valid(conn, schema, index)
    if is_valid:
        return []
    left = [] if is_valid is None else [index.cleaning(schema)]
    return [*left, index.step(schema)]


def create(
    conn: Connection,
    schema: str,
    indexes: Sequence[OptionalIndex],
    wait_seconds: float,
    on_wait: OnWait,
) -> list[Step]:
    """Create what is missing; returns what this call created. `wait_seconds`: for another process
    that creates one, and for transactions that were open before."""
    if not indexes:
        return []
    if db.is_pooled(conn):
        raise UnfitPooler(
            "An index cannot be created through a pooler, which may switch to another session of "
            "the server: it was not created",
            "Connect directly to the server.",
        )
    with _alone(conn, schema, wait_seconds, on_wait), _patient(conn, wait_seconds):
        missing = [index for index in indexes if not _is_valid(conn, schema, index)]
        try:
            return [_create(conn, schema, index) for index in missing]
        except (pg.LockNotAvailable, pg.DeadlockDetected) as error:
            raise MigrationBlocked(schema, wait_seconds, find_blockers(conn, schema)) from error


def _create(conn: Connection, schema: str, index: OptionalIndex) -> Step:
    step = index.step(schema)
    conn.execute(index.cleaning(schema).text.encode())
    try:
        conn.execute(step.text.encode())
    except pg.UniqueViolation as error:
        conn.execute(index.cleaning(schema).text.encode())
        found = db.fetch_all(conn, schema, "index_duplicates")
        raise DuplicateIds(schema, dict(found)) from error
    return step


def _is_valid(conn: Connection, schema: str, index: OptionalIndex) -> bool | None:
    """None: there is none."""
    found: bool | None = db.fetch_one(conn, schema, "index_state", name=index.name)[0]
    return found


@contextmanager
def _alone(conn: Connection, schema: str, wait_seconds: float, on_wait: OnWait) -> Iterator[None]:
    """One process at a time; see the query for why the lock is not waited for."""
    give_up_at, tries = time.monotonic() + wait_seconds, 0
    while not db.fetch_one(conn, schema, "index_lock")[0]:
        tries += 1
        pause, blockers = PAUSES.delay_seconds(tries, 0.0), find_blockers(conn, schema)
        if time.monotonic() + pause > give_up_at:
            raise MigrationBlocked(schema, wait_seconds, blockers)
        on_wait(blockers)
        time.sleep(pause)
    try:
        yield
    finally:
        if not conn.closed:  # else the server has released it, and the first error is raised
            db.fetch_one(conn, schema, "index_unlock")


@contextmanager
def _patient(conn: Connection, wait_seconds: float) -> Iterator[None]:
    """Each wait has a limit; the work has none, whatever the default of the role is."""
    conn.execute(
        sql.query("index_limits"), {"lock_timeout": f"{max(1, wait_seconds * 1000):.0f}ms"}
    )
    try:
        yield
    finally:
        if not conn.closed:
            conn.execute(sql.query("index_no_limits"))
