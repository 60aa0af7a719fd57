"""Whose turn it is: of the instances of an at-least-once processor without segments, one works.

Exactly once, the row of the checkpoint decides: it is locked before the handler is called. At least
once the handler comes first, and the checkpoint would show only afterwards that it worked in vain.
So an instance works while it holds an advisory lock, and loads the checkpoint once it has it.

It is a lock of the session. It ends with the connection, however the process ends, and need not be
renewed beside slow handlers. It is not a fence: that is the compare-and-set of the checkpoint. All
processors of a process hold their locks on one connection.

Behind a pooler no session is ours. There a transaction holds the lock, on a connection that does
nothing else. It has no transaction id and no snapshot, so it does not hold back the horizon.
"""

from __future__ import annotations

import time
from contextlib import suppress
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

import psycopg

from milepost import db
from milepost.runtime import ServerLost

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection
    from milepost.runtime import Lease, Runtime


def is_free(conn: Connection, schema: str, key: CheckpointKey) -> bool:
    """Whether nobody has the turn, for an instance that does not take it."""
    of = key.parameters() | {"owner": None}
    return bool(db.fetch_one(conn, schema, "turn_take_in_transaction", **of)[0])


class Turns:
    """The turns that this process has: `runtime.part(Turns)`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = Lock()
        self._stop = Event()
        self._held: dict[CheckpointKey, Lease] = {}
        self._checked_at = 0.0

    def take(self, key: CheckpointKey, owner: str) -> bool:
        """Whether this process has the turn from now on. Not if another instance in it has."""
        with self._lock:
            if key in self._held:
                return False
            lease = self._shared() or self._runtime.connections.lease(
                "turns", self._stop, is_own=True
            )
            conn = lease.__enter__()
            try:
                is_taken = self._take(conn, key.parameters() | {"owner": owner})
            except BaseException:
                lease.__exit__(None, None, None)
                lease.close()
                raise
            if is_taken:
                self._held[key] = lease
            else:
                self._leave(conn, lease)
            return is_taken

    def release(self, key: CheckpointKey, owner: str) -> None:
        with self._lock:
            lease = self._held.pop(key, None)
            if lease is None or lease.conn is None:
                return
            conn = lease.conn
            with suppress(psycopg.Error):  # a lost connection has ended it already
                if conn.autocommit:
                    of = key.parameters() | {"owner": owner}
                    db.run(conn, self._runtime.schema, "turn_release", **of)
            self._leave(conn, lease)

    def check(self, key: CheckpointKey) -> None:
        """Raises if the connection that has the lock is gone: nothing else uses it."""
        with self._lock:
            now, timing = time.monotonic(), self._runtime.timing
            lease = self._held.get(key)
            if lease is None or lease.conn is None or lease.conn.closed:
                raise ServerLost("The connection that holds the processor's turn is gone.")
            if not lease.conn.autocommit or now - self._checked_at >= timing.orders_seconds:
                self._checked_at = now
                lease.conn.execute(b"select")

    def _shared(self) -> Lease | None:
        """Not behind a pooler: a transaction that ended one turn would end all."""
        for lease in self._held.values():
            conn = lease.conn
            if conn is not None and conn.autocommit and not conn.closed:
                return lease
        return None

    def _take(self, conn: Connection, of: dict[str, Any]) -> bool:
        schema = self._runtime.schema
        if not db.is_pooled(conn):
            return bool(db.fetch_one(conn, schema, "turn_take", **of)[0])
        conn.autocommit = False  # the next statement begins the transaction
        db.fetch_all(conn, schema, "turn_keep")
        return bool(db.fetch_one(conn, schema, "turn_take_in_transaction", **of)[0])

    def _leave(self, conn: Connection, lease: Lease) -> None:
        if not conn.autocommit:
            with suppress(psycopg.Error):
                conn.rollback()
        lease.__exit__(None, None, None)
        if lease not in self._held.values():
            lease.close()
