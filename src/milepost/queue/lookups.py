"""Looking at jobs for those who wait for results, on a few connections that they share.

A caller's own connection does not do: its transaction may not see what others commit. The
connections are closed when nobody waits any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Any

from milepost import db, sql

if TYPE_CHECKING:
    from milepost.db import Connection, UrlSource

MOST_CONNECTIONS = 4


@dataclass(slots=True, eq=False)
class Lookups:
    source: UrlSource = field(repr=False)
    schema: str = sql.DEFAULT_SCHEMA
    _slots: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(MOST_CONNECTIONS))
    _lock: Lock = field(default_factory=Lock, init=False)
    _resting: list[Connection] = field(default_factory=list, init=False)
    _users: int = field(default=0, init=False)

    @property
    def url(self) -> str:
        return db.url_of(self.source)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Around all looks of one caller."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            self._end_use()

    def look(self, id_: int) -> list[Any]:
        """The row of a job, if there is one. From any thread."""
        with self._slots, db.acting(self.url, "put"):
            conn = self._connection()
            try:
                rows = db.fetch_all(conn, self.schema, "queue_result", id=id_)
            except BaseException:
                conn.close()
                raise
            self._rest(conn)
            return rows

    def _connection(self) -> Connection:
        with self._lock:
            if self._resting:
                return self._resting.pop()
        return db.connect(self.url)

    def _rest(self, conn: Connection) -> None:
        """A look may end after the coroutine that asked for it was cancelled."""
        with self._lock:
            if self._users:
                self._resting.append(conn)
                return
        conn.close()

    def _end_use(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            unused, self._resting = self._resting, []
        for conn in unused:
            conn.close()
