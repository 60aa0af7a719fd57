"""The transaction that a handler is given: of a session in which nothing of other jobs is left.

What a handler sets for its session (SET, SET ROLE, LISTEN, session advisory locks, temporary
tables) would be there for the next job. So the statement that settles a job also resets the
session, in the same transaction. After a failure that is done here: a rollback undoes the settings,
but not the advisory locks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from milepost.runtime import is_transient

if TYPE_CHECKING:
    from contextlib import AsyncExitStack, ExitStack

    from milepost.db import AsyncConnection, Connection
    from milepost.runtime import AsyncLease, Lease


@contextmanager
def transaction(lease: Lease, conn: Connection) -> Iterator[Connection]:
    """Until it ends the lease is in use."""
    with lease:
        try:
            with conn.transaction():
                yield conn
        except BaseException:
            lease.reset_after_failure(conn)
            raise


@asynccontextmanager
async def transaction_async(
    lease: AsyncLease, conn: AsyncConnection
) -> AsyncIterator[AsyncConnection]:
    async with lease:
        try:
            async with conn.transaction():
                yield conn
        except BaseException:
            await lease.reset_after_failure(conn)
            raise


def close_unused(stack: ExitStack) -> None:
    """End a transaction that was opened before a job was found for it. If its connection is lost,
    nothing is lost with it: the next use of the lease opens another one."""
    try:
        stack.close()
    except Exception as error:  # noqa: BLE001 - raised again, unless it passes
        refuse_lasting(error)


async def close_unused_async(stack: AsyncExitStack) -> None:
    try:
        await stack.aclose()
    except Exception as error:  # noqa: BLE001 - raised again, unless it passes
        refuse_lasting(error)


def refuse_lasting(error: Exception) -> None:
    if not is_transient(error):
        raise error
