"""One call of a handler, and how the attempt ended by it.

A handler with a transaction settles its job in that transaction, fenced: its effects exist exactly
if the job is completed by them. All others are told of later, in batches.

A connection that is found lost before the handler is called does not fail the job: it is reopened,
however long that takes. One that is lost while the handler runs is a failure, because the
handler may be what ended it.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Protocol

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from milepost import db
from milepost.errors import JobTransactionEnded
from milepost.handlers import refuse_broken, refuse_unfinished
from milepost.queue import endings
from milepost.queue.hand import has_lock
from milepost.queue.link import RECONNECT, Link, LinkEnded, log_loss
from milepost.queue.outcome import Ending, Kind, ending_of_error, ending_of_return
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
    """Where a worker works. After `stopped`, nobody waits for a server that is away."""

    definition: Definition
    url: str = field(repr=False)
    schema: str
    completions: Completions
    stopped: Event

    def failed(self, job: TakenJob, error: BaseException) -> None:
        retry = self.definition.options.retry
        self.completions.ended(ending_of_error(job, error, retry, random.random()))  # noqa: S311

    def not_begun(self, job: TakenJob) -> None:
        self.completions.ended(Ending(job, Kind.GIVE_BACK))


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
    _link: Link = field(init=False)

    def __post_init__(self) -> None:
        place, options = self.place, self.place.definition.options
        self._link = Link(
            place.url, place.schema, options.channel, not options.listen, place.stopped
        )

    def __call__(self, job: TakenJob) -> None:
        try:
            self._transaction(job)
        except LinkEnded:
            self.place.not_begun(job)
        except LockLost:
            self.place.completions.settled(job)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its failure
            # If the answer to a commit was lost, the fence lets the failure change nothing.
            self.place.failed(job, error)
        else:
            self.place.completions.settled(job)

    def close(self) -> None:
        self._link.close()

    def _transaction(self, job: TakenJob) -> None:
        with ExitStack() as stack:
            conn = self._link.run(lambda conn: begin(conn, stack))
            refuse_expired(job)
            try:
                result = self.place.definition.handler(job, conn)
                refuse_unfinished(result)
                refuse_broken(conn)
            except Exception as error:
                refuse_ended(job, conn, error)
                raise
            ending = ending_of_return(job, result)
            conn.row_factory = tuple_row  # a handler may set it for itself
            for _, verdict in endings.tell(conn, [ending], self.place.schema):
                refuse_lost(ending, verdict)


@dataclass(slots=True)
class TransactionalAsyncCall:
    """`await handler(job, tx)`, on an async connection of this task's own."""

    place: Place
    _conn: AsyncConnection | None = field(default=None, init=False)

    async def __call__(self, job: TakenJob) -> None:
        try:
            await self._transaction(job)
        except LinkEnded:
            self.place.not_begun(job)
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
        async with AsyncExitStack() as stack:
            conn = await self._begin(stack)
            refuse_expired(job)
            try:
                result = await self.place.definition.handler(job, conn)
                refuse_broken(conn)
            except Exception as error:
                refuse_ended(job, conn, error)
                raise
            ending = ending_of_return(job, result)
            conn.row_factory = tuple_row
            refuse_lost(ending, await endings.tell_async(conn, ending, self.place.schema))

    async def _begin(self, stack: AsyncExitStack) -> AsyncConnection:
        """As Link.run does it."""
        losses = 0
        while True:
            try:
                conn = await self._open()
                await stack.enter_async_context(conn.transaction())
            except psycopg.OperationalError as error:
                await self.close()
                losses += 1
                log_loss(self.place.definition.options.channel, losses, error)
                delay = RECONNECT.delay_seconds(losses, random.random())  # noqa: S311
                if await asyncio.to_thread(self.place.stopped.wait, delay):
                    raise LinkEnded from error
            else:
                return conn

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


def begin(conn: Connection, stack: ExitStack) -> Connection:
    """A transaction that ends with the stack."""
    stack.enter_context(conn.transaction())
    return conn


def refuse_expired(job: TakenJob) -> None:
    """As after a long wait for the server."""
    if not has_lock(job):
        raise LockLost(f"job {job.id}, attempt {job.attempt}: its lock expired before it began")


def refuse_ended(job: TakenJob, conn: Connection | AsyncConnection, error: Exception) -> None:
    """A failure undoes nothing of what the handler has committed by itself, so another attempt
    would do it twice."""
    if not conn.closed and conn.info.transaction_status == TransactionStatus.IDLE:
        raise JobTransactionEnded(job.id, f"{type(error).__name__}: {error}") from error


def refuse_lost(ending: Ending, verdict: Verdict) -> None:
    if verdict is not Verdict.DONE:
        raise LockLost(f"job {ending.job.id}, attempt {ending.job.attempt}: {verdict}")
