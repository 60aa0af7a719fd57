"""What a driver does for `append` and `put`: run their steps in the caller's transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost import sql

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from milepost.db import AsyncConnection, Connection, Statement


@dataclass(frozen=True, slots=True)
class Copy:
    """Rows to write with COPY. Each is made while the server writes the ones before it."""

    query: bytes
    types: Sequence[str]
    rows: Iterable[Sequence[Any]]


class Driver(ABC):
    """One object of a caller, with blocking calls."""

    __slots__ = ()

    @property
    def psycopg(self) -> Connection | None:
        """The psycopg connection inside, if it is one that this thread can use. Only these copy."""
        return None

    @abstractmethod
    def check(self) -> None:
        """Refuse a closed connection or a failed transaction, as far as that is known here."""

    @abstractmethod
    def errors(self, schema: str, activity: sql.Activity) -> AbstractContextManager[None]:
        """A block in which the server's errors become ours."""

    @abstractmethod
    def savepoint(self) -> AbstractContextManager[None]:
        """A block that is undone if it fails. Where every statement would be a transaction of its
        own, the block is one transaction."""

    @abstractmethod
    def do(self, step: Statement | Copy) -> Any:
        """The rows of a statement."""


class AsyncDriver(ABC):
    """The same for coroutines."""

    __slots__ = ()

    @property
    def psycopg(self) -> AsyncConnection | None:
        return None

    @abstractmethod
    def check(self) -> None: ...
    @abstractmethod
    def errors(self, schema: str, activity: sql.Activity) -> AbstractContextManager[None]: ...
    @abstractmethod
    def savepoint(self) -> AbstractAsyncContextManager[None]: ...
    @abstractmethod
    async def do(self, step: Statement | Copy) -> Any: ...


# An AsyncSession has to be awaited to know which driver is inside.
PendingDriver: TypeAlias = Callable[[], Awaitable[AsyncDriver]]


@contextmanager
def block(driver: Driver, failed: type[Exception], *, is_outermost: bool) -> Iterator[None]:
    """A savepoint, or a transaction if there is none to be part of. Undoing it may fail with
    `failed`, on a broken connection: what is raised is the first error."""
    begin, commit, undo = _BLOCKS[is_outermost]
    driver.do((sql.query(begin), {}))
    try:
        yield
        driver.do((sql.query(commit), {}))
    except BaseException:
        with suppress(failed):
            for query in undo:
                driver.do((sql.query(query), {}))
        raise


@asynccontextmanager
async def block_async(
    driver: AsyncDriver, failed: type[Exception], *, is_outermost: bool
) -> AsyncIterator[None]:
    begin, commit, undo = _BLOCKS[is_outermost]
    await driver.do((sql.query(begin), {}))
    try:
        yield
        await driver.do((sql.query(commit), {}))
    except BaseException:
        with suppress(failed):
            for query in undo:
                await driver.do((sql.query(query), {}))
        raise


# Two statements to undo a savepoint: asyncpg sends only one at a time.
_BLOCKS = {
    True: ("block_begin", "block_commit", ("block_rollback",)),
    False: ("savepoint", "savepoint_release", ("savepoint_rollback", "savepoint_release")),
}
