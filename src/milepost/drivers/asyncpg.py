"""asyncpg: a connection, or the proxy that its pool gives."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost import sql
from milepost.db import closed_connection, translated
from milepost.drivers.driver import AsyncDriver, block_async
from milepost.drivers.parameters import numbered

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from milepost.db import Statement
    from milepost.drivers.driver import Copy


@dataclass(slots=True)
class Asyncpg(AsyncDriver):
    conn: Any

    def check(self) -> None:
        """It does not show whether the transaction has failed: there the server refuses."""
        try:
            is_closed = self.conn.is_closed()
        except sys.modules["asyncpg"].InterfaceError as exc:  # given back to its pool
            raise closed_connection() from exc
        if is_closed:
            raise closed_connection()

    def errors(self, schema: str, activity: sql.Activity) -> AbstractContextManager[None]:
        failed = sys.modules["asyncpg"].PostgresError
        return translated(schema, activity, AsyncpgInfo(self.conn), errors=failed)

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """asyncpg refuses its own `transaction()` in a transaction that was begun in SQL."""
        if self.conn.is_in_transaction():
            failed = sys.modules["asyncpg"].PostgresError
            return block_async(self, failed, is_outermost=False)
        return self.conn.transaction()  # type: ignore[no-any-return]  # of asyncpg

    async def do(self, step: Statement | Copy) -> Any:
        query, values = numbered(step)
        return await self.conn.fetch(query, *values)


@dataclass(frozen=True, slots=True)
class AsyncpgInfo:
    """As `conn.info` of psycopg."""

    conn: Any

    @property
    def user(self) -> str | None:
        return self.parameter_status("session_authorization")

    def parameter_status(self, name: str) -> str | None:
        if self.conn.is_closed():
            return None
        value: str | None = getattr(self.conn.get_settings(), name, None)
        return value
