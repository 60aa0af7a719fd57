"""Whose turn it is: of the instances of an at-least-once processor without segments, one works.

Exactly once, the row of the checkpoint decides: it is locked before the handler is called. At least
once the handler comes first, and the checkpoint would tell only afterwards that it worked in vain.
So an instance works while it holds an advisory lock, and loads the checkpoint once it has the lock.

It is a lock of the session. It ends with the connection, however the process ends, and need not be
renewed beside slow handlers. It is no fence: that is the compare-and-set of the checkpoint.

Behind a pooler no session is ours. There a transaction holds the lock, on a connection that does
nothing else. It has no transaction id and no snapshot, so that it holds no horizon back.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import psycopg

from milepost import db, sql
from milepost.db import one, translated

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection


@dataclass(frozen=True, slots=True)
class Turn:
    key: CheckpointKey
    conn: Connection
    schema: str

    @classmethod
    def behind_pooler(cls, key: CheckpointKey, url: str, schema: str, application: str) -> Self:
        """On a connection of its own; `close` it."""
        conn = db.connect(url, application_name=application)
        conn.autocommit = False  # the next statement begins the transaction that `close` ends
        return cls(key, conn, schema)

    def take(self) -> bool:
        """Whether this instance has the turn, from now until its connection or `close` ends it."""
        if self.conn.autocommit:
            return self._ask("turn_take")
        with translated(self.schema):
            self.conn.execute(sql.query("turn_keep", self.schema))
        return self._ask("turn_take_in_transaction")

    def is_free(self) -> bool:
        """Whether nobody has it, for one who does not take it."""
        return self._ask("turn_take_in_transaction")

    def check(self) -> None:
        """Raises if the connection that has the lock is gone, where nothing else uses it."""
        if not self.conn.autocommit:
            self._ask("turn_take_in_transaction")

    def close(self) -> None:
        with suppress(psycopg.Error):  # a lost connection has ended it already, whatever it says
            self.conn.rollback()
        self.conn.close()

    def _ask(self, query: str) -> bool:
        parameters = {"processor": self.key.processor, "version": self.key.version}
        with translated(self.schema):
            row = self.conn.execute(sql.query(query, self.schema), parameters).fetchone()
        return bool(one(row)[0])
