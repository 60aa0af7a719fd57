"""psycopg2, which interpolates values into the query."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.pq import TransactionStatus

from milepost import sql
from milepost.db import closed_connection, failed_transaction, translated
from milepost.drivers.driver import Driver, block
from milepost.drivers.parameters import interpolated

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from milepost.db import Statement
    from milepost.drivers.driver import Copy


@dataclass(slots=True)
class Psycopg2(Driver):
    conn: Any

    def check(self) -> None:
        if self.conn.closed:
            raise closed_connection()
        if self.conn.get_transaction_status() == TransactionStatus.INERROR:
            raise failed_transaction()

    def errors(self, schema: str, activity: sql.Activity) -> AbstractContextManager[None]:
        return translated(schema, activity, self.conn.info, errors=self.conn.Error)

    def savepoint(self) -> AbstractContextManager[None]:
        return block(self, self.conn.Error, is_outermost=would_commit(self.conn))

    def do(self, step: Statement | Copy) -> Any:
        """With tuple rows, on a connection that may be set to another kind."""
        plain = sys.modules["psycopg2.extensions"].cursor
        with self.conn.cursor(cursor_factory=plain) as cursor:
            cursor.execute(*interpolated(step))
            return None if cursor.description is None else cursor.fetchall()


def would_commit(conn: Any) -> bool:
    """Whether a statement would be a transaction of its own."""
    is_idle = conn.get_transaction_status() == TransactionStatus.IDLE
    return bool(conn.autocommit and is_idle)
