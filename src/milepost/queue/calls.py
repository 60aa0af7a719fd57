"""One call of a handler, and how the attempt ended by it.

A handler with a transaction settles its job in that transaction, fenced: its effects exist exactly
if the job is completed by them. All others are told of later, in batches.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from psycopg.rows import tuple_row

from milepost import db
from milepost.handlers import refuse_broken, refuse_unfinished
from milepost.queue import endings
from milepost.queue.link import connect
from milepost.queue.outcome import Ending, ending_of_error, ending_of_return
from milepost.records import Verdict

if TYPE_CHECKING:
    from milepost.db import AsyncConnection, Connection
    from milepost.queue.completions import Completions
    from milepost.queue.definition import Definition
    from milepost.records import TakenJob


class LockLost(Exception):
    """The job is another's, or ended, by now: the handler's transaction is rolled back."""


class Call(Protocol):
    """Made once for each thread of handlers."""

    def __call__(self, job: TakenJob) -> None: ...
    def close(self) -> None: ...


class AsyncCall(Protocol):
    async def __call__(self, job: TakenJob) -> None: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker works."""

    definition: Definition
    url: str
    schema: str
    completions: Completions

    def failed(self, job: TakenJob, error: BaseException) -> None:
        retry = self.definition.options.retry
        self.completions.ended(ending_of_error(job, error, retry, random.random()))  # noqa: S311


@dataclass(slots=True)
class PlainCall:
    """`handler(job)`."""

    place: Place

    def __call__(self, job: TakenJob) -> None:
        try:
            result = self.place.definition.handler(job)
            if result is None:
                self.place.completions.done(job)
                return
            refuse_unfinished(result)
            ending = ending_of_return(job, result)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its failure
            self.place.failed(job, error)
        else:
            self.place.completions.ended(ending)

    def close(self) -> None:
        pass


@dataclass(slots=True)
class PlainAsyncCall:
    """`await handler(job)`."""

    place: Place

    async def __call__(self, job: TakenJob) -> None:
        try:
            result = await self.place.definition.handler(job)
            if result is None:
                self.place.completions.done(job)
                return
            ending = ending_of_return(job, result)
        except BaseException as error:  # noqa: BLE001 - also a cancellation of its own making
            self.place.failed(job, error)
        else:
            self.place.completions.ended(ending)

    async def close(self) -> None:
        pass


@dataclass(slots=True)
class TransactionalCall:
    """`handler(job, tx)`, on a connection of this thread's own."""

    place: Place
    _conn: Connection | None = field(default=None, init=False)

    def __call__(self, job: TakenJob) -> None:
        try:
            self._transaction(job)
        except LockLost:
            self.place.completions.settled(job)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its failure
            # If the answer to a commit was lost, the fence lets the failure change nothing.
            self.place.failed(job, error)
        else:
            self.place.completions.settled(job)

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()

    def _transaction(self, job: TakenJob) -> None:
        conn = self._open()
        with conn.transaction():
            result = self.place.definition.handler(job, conn)
            refuse_unfinished(result)
            refuse_broken(conn)
            ending = ending_of_return(job, result)
            conn.row_factory = tuple_row  # a handler may set it for itself
            for _, verdict in endings.tell(conn, [ending], self.place.schema):
                refuse_lost(ending, verdict)

    def _open(self) -> Connection:
        if self._conn is None or self._conn.closed:
            options = self.place.definition.options
            self._conn = connect(self.place.url, options.channel, is_pooled=not options.listen)
        return self._conn


@dataclass(slots=True)
class TransactionalAsyncCall:
    """`await handler(job, tx)`, on an async connection of this task's own."""

    place: Place
    _conn: AsyncConnection | None = field(default=None, init=False)

    async def __call__(self, job: TakenJob) -> None:
        try:
            await self._transaction(job)
        except LockLost:
            self.place.completions.settled(job)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its failure
            self.place.failed(job, error)
        else:
            self.place.completions.settled(job)

    async def close(self) -> None:
        if self._conn is not None:
            await self._conn.close()

    async def _transaction(self, job: TakenJob) -> None:
        conn = await self._open()
        async with conn.transaction():
            result = await self.place.definition.handler(job, conn)
            refuse_broken(conn)
            ending = ending_of_return(job, result)
            conn.row_factory = tuple_row
            refuse_lost(ending, await endings.tell_async(conn, ending, self.place.schema))

    async def _open(self) -> AsyncConnection:
        if self._conn is None or self._conn.closed:
            options = self.place.definition.options
            name = f"milepost {options.channel}"[:63]
            if options.listen:
                self._conn = await db.connect_async(self.place.url, application_name=name)
                await db.detect_dead_peers_async(self._conn)
            else:
                self._conn = await db.connect_pooled_async(self.place.url, application_name=name)
        return self._conn


def refuse_lost(ending: Ending, verdict: Verdict) -> None:
    if verdict is not Verdict.DONE:
        raise LockLost(f"job {ending.job.id}, attempt {ending.job.attempt}: {verdict}")
