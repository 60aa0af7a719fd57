"""What a session of the archiver writes with: its epoch, and a connection that reads many rows.

Imports pyarrow, which is an extra: it is imported when the archiver begins to work.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from secrets import token_hex
from threading import Event
from typing import TYPE_CHECKING

from milepost import adbc, db
from milepost.archive.range_archiver import (
    ArchiverFenced,
    RangeWriter,
    commit_file,
    range_parameters,
    tag_of,
)
from milepost.errors import ArchiveUnwritable
from milepost.processors import Conflict
from milepost.runtime import Stopping, is_server_lost

if TYPE_CHECKING:
    from milepost.archive.plan import Plan
    from milepost.db import Connection
    from milepost.log.history import ArchivedFile
    from milepost.runtime import Runtime


@dataclass(slots=True)
class Filing:
    runtime: Runtime
    owner: str
    stop: Event
    epoch: int
    database: str  # its tag in the names of files
    _serial: str = field(default_factory=lambda: token_hex(4), init=False)
    _arrow: adbc.Connection | None = field(default=None, init=False)
    _stack: ExitStack = field(default_factory=ExitStack, init=False)

    @classmethod
    def begin(cls, conn: Connection, runtime: Runtime, owner: str, stop: Event) -> Filing:
        """Under a new epoch: whoever has the one before cannot commit any more."""
        *_, epoch = db.fetch_one(conn, runtime.schema, "archive_begin", owner=owner)
        return cls(runtime, owner, stop, epoch, tag_of(conn, runtime.schema))

    def write(self, plan: Plan, file_bytes: int) -> ArchivedFile:
        """A durable file, of which the manifest does not know yet."""
        try:
            file = self._writer(plan, file_bytes).write(plan.after, plan.last, self._refuse_stopped)
        except BaseException:
            self.close()
            raise
        if file.last != plan.last:  # the server still sends the rest of the range
            self.close()
        return file

    def commit(self, conn: Connection, file: ArchivedFile) -> None:
        try:
            commit_file(conn, self.runtime.schema, file, self.owner)
        except ArchiverFenced as fenced:
            raise Conflict(fenced.answer) from fenced

    def explain(self, conn: Connection, plan: Plan, error: Exception) -> None:
        """Ask again through psycopg: errors of Arrow's streams have no SQLSTATE. Raises our error,
        if there is one for it."""
        if not isinstance(error, Stopping | ArchiveUnwritable) and not is_server_lost(error):
            parameters = range_parameters(plan.after, plan.last)
            db.fetch_all(conn, self.runtime.schema, "range_rows", **parameters)

    def close(self) -> None:
        """Of its connection, which it opens when it needs it."""
        self._arrow = None
        self._stack.close()

    def _writer(self, plan: Plan, file_bytes: int) -> RangeWriter:
        return RangeWriter(
            self._opened(),
            self.runtime.schema,
            plan.location,
            self.epoch,
            self.database,
            file_bytes,
            self._serial,
        )

    def _opened(self) -> adbc.Connection:
        """One of the process's own connections, so that no lease of others is waited for in vain
        while it is open."""
        if self._arrow is None:
            runtime, name = self.runtime, f"milepost {self.owner}"
            self._stack.enter_context(runtime.connections.counting(name, self.stop))
            self._arrow = adbc.connect(
                db.conninfo(runtime.url, "milepost milepost.archive"),
                is_pooled=db.leads_to_pgbouncer(runtime.url),
            )
            self._stack.callback(self._arrow.close)
        return self._arrow

    def _refuse_stopped(self) -> None:
        if self.stop.is_set():
            raise Stopping
