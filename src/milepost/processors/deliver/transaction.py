"""The transaction of a batch: store the checkpoint, sift what is parked, call the handlers, commit.

The store is the guard that makes effects happen once: a statement that must answer 1, or nothing
happens. Another guard is the deletion of a dead letter that is retried. The guard comes first, so
that a conflict costs no work.

A handler could end the transaction by itself, with a COMMIT or a ROLLBACK in SQL. Then nothing may
be retried: the connection is in autocommit mode, so what follows may be committed already. The next
statement is refused. A transaction that was begun instead has another id than the guard's.

What a handler sets for its session (SET, SET ROLE, advisory locks) must not be there for the next
batch: the session is reset before the commit, and after a failure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import psycopg
from psycopg.errors import LockNotAvailable
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from milepost import sql
from milepost.binding import bound, bound_async, committed
from milepost.checkpoints import Answer
from milepost.db import Statement, one, plain, plain_async, translated
from milepost.errors import ConnectionUnusable, TransactionEnded, describe
from milepost.handlers import refuse_broken, refuse_unfinished, refusing_autocommit
from milepost.log import refuse_unreadable
from milepost.processors.by_type import runs
from milepost.processors.handler_call import NOTHING, Supply
from milepost.steps import drive, drive_async

if TYPE_CHECKING:
    from milepost.db import AsyncConnection, Connection
    from milepost.processors.definition import Definition
    from milepost.processors.handler_call import Arguments, Handling
    from milepost.processors.set_aside.parking import Parking
    from milepost.records import RecordedMessage
    from milepost.runtime import AnyLease, AsyncLease, Lease

T = TypeVar("T")
COMMITTED, IN_PROGRESS = "committed", "in progress"  # what pg_xact_status() answers


class Conflict(Exception):
    """The checkpoint was not where this instance expected it. Nothing was stored, and nothing of
    the batch has happened."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__(answer.name.lower())

    @property
    def is_competitor(self) -> bool:
        """Whether another instance works under the same name. Otherwise somebody reset it."""
        return self.answer in (Answer.FURTHER, Answer.IGNORED)


class GuardFailed(Exception):
    """A statement of ours failed, not the handler."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))


@contextmanager
def storing(schema: str) -> Iterator[None]:
    """Our errors, and a conflict where a competitor has held the row for longer than we wait."""
    try:
        with translated(schema):
            yield
    except LockNotAvailable as error:
        raise Conflict(Answer.FURTHER) from error


@contextmanager
def guarding(schema: str) -> Iterator[None]:
    """For statements of ours that run where the handler's failures are caught."""
    try:
        with storing(schema):
            yield
    except (Conflict, GuardFailed):
        raise
    except Exception as error:
        raise GuardFailed(error) from error


# The call of a handler, with its transaction; a coroutine if the handler is async.
HandlerCall: TypeAlias = "Callable[[Any], Any]"
Steps: TypeAlias = "Generator[Statement | HandlerCall, Any, T]"


@dataclass(slots=True)
class BatchTransaction:
    """What happens in it, step by step: statements, which are answered with their rows, and calls.
    Run by a connection of either colour."""

    effects: ExactlyOnceEffects
    conn: Connection | AsyncConnection
    messages: list[RecordedMessage]
    guard: Statement
    parking: Parking | None
    id: str | None = None  # the transaction's, once the guard has held
    is_ended: bool = False  # by a handler

    def steps(self) -> Steps[Answer]:
        # Store the checkpoint.
        rows = yield self.guard
        row = rows[0] if rows else None
        if (answer := answer_of(row)) is not Answer.STORED:
            return answer
        self.id = str(one(row)[-1])
        # Sift: set aside the messages of parked keys.
        messages = self.messages
        if self.parking is not None:
            with guarding(self.effects.schema):
                messages = yield from self.parking.sift(messages, row)
        # Handle. Returning commits.
        yield from handler_calls(self.effects.definition, messages, self.effects.supply)
        return answer

    @contextmanager
    def refusing_end(self) -> Iterator[None]:
        """While the handlers run."""
        try:
            with refusing_autocommit(self.conn):
                yield
        finally:
            is_idle = self.conn.info.transaction_status == TransactionStatus.IDLE
            self.is_ended = self.is_ended or (is_idle and self.id is not None)

    @property
    def is_asked(self) -> bool:
        """Whether the server can tell, after a failure, if it is still the same transaction: asked
        before our rollback. A failed one answers nothing: then only a COMMIT counts."""
        is_open = self.conn.info.transaction_status == TransactionStatus.INTRANS
        return is_open and self.id is not None

    def refuse_other(self, id_: str | None) -> None:
        """A transaction that a handler has begun instead of the one that it has ended."""
        if id_ != self.id:
            self.is_ended = True
            raise ConnectionUnusable("The handler ended its transaction and began another in SQL.")

    def ended_by_handler(self, error: Exception, status: str | None) -> GuardFailed:
        """Not a failure that could be retried or set aside: nobody knows what was committed."""
        first, last = (str(self.messages[place].position) for place in (0, -1))
        name, is_committed = self.effects.definition.options.name, status == COMMITTED
        cause = describe(error).rstrip(".")
        return GuardFailed(TransactionEnded(name, first, last, cause, is_committed))

    def status(self) -> Statement:
        """Asks what became of the transaction."""
        return sql.query("transaction_status", self.effects.schema), {"id": self.id}


@dataclass(frozen=True, slots=True)
class Effects(ABC):
    """How one processor's handlers take effect."""

    definition: Definition
    lease: AnyLease[Any]
    schema: str
    supply: Supply = NOTHING

    @abstractmethod
    def apply(
        self, messages: list[RecordedMessage], guard: Statement, parking: Parking | None = None
    ) -> Answer:
        """Handle the messages if the guard holds, except those of parked keys, which are set
        aside. Raises what the handler raises; then, and with any answer but STORED, an
        exactly-once handler has left no trace."""

    def is_lost(self) -> bool:
        """Whether the connection that the effects need is gone."""
        return self.lease.is_lost()


class ExactlyOnceEffects(Effects):
    """The effects and the checkpoint commit in one transaction."""

    def apply(
        self, messages: list[RecordedMessage], guard: Statement, parking: Parking | None = None
    ) -> Answer:
        with self.lease as conn:
            batch = BatchTransaction(self, conn, messages, guard, parking)
            try:
                answer = self._run(conn, batch)
            except Exception as error:
                if batch.id is not None and not conn.closed:
                    status = self._status(conn, batch)
                    if batch.is_ended or status == COMMITTED:
                        raise batch.ended_by_handler(error, status) from error
                raise
            finally:
                # A handler may set it for itself; guards and reports read plain rows.
                conn.row_factory = tuple_row
        if answer is Answer.STORED:
            committed(self.definition.options.session)
        return answer

    @abstractmethod
    def _run(self, conn: Any, batch: BatchTransaction) -> Answer: ...

    @abstractmethod
    def _status(self, conn: Any, batch: BatchTransaction) -> str | None: ...


class ExactlyOnce(ExactlyOnceEffects):
    """For `def` handlers."""

    lease: Lease

    def _run(self, conn: Connection, batch: BatchTransaction) -> Answer:
        answer = Answer.MISSING
        try:
            with conn.transaction():
                try:
                    with batch.refusing_end(), bound(self.definition.options.session, conn) as tx:
                        answer = run(conn, batch.steps(), self.schema, tx=tx)
                        roll_back_unless_stored(answer)
                except Exception:
                    if batch.is_asked:
                        batch.is_ended = self._status(conn, batch) != IN_PROGRESS
                    raise
                refuse_broken(conn)
                with guarding(self.schema):
                    id_ = self.lease.reset_session(conn)
                batch.refuse_other(id_)
        except BaseException:
            self.lease.reset_after_failure(conn)
            raise
        return answer

    def _status(self, conn: Connection, batch: BatchTransaction) -> str | None:
        with guarding(self.schema):
            row = plain(conn).execute(*batch.status()).fetchone()
        status: str | None = one(row)[0]
        return status


class ExactlyOnceAsync(ExactlyOnceEffects):
    """For `async def` handlers, on an async connection of the processor's event loop."""

    lease: AsyncLease

    def _run(self, conn: AsyncConnection, batch: BatchTransaction) -> Answer:
        async def transaction() -> Answer:
            answer = Answer.MISSING
            try:
                async with conn.transaction():
                    try:
                        with batch.refusing_end():
                            async with bound_async(self.definition.options.session, conn) as tx:
                                answer = await run_async(conn, batch.steps(), self.schema, tx)
                                roll_back_unless_stored(answer)
                    except Exception:
                        if batch.is_asked:
                            batch.is_ended = await self._ask(conn, batch) != IN_PROGRESS
                        raise
                    refuse_broken(conn)
                    with guarding(self.schema):
                        id_ = await self.lease.reset_session(conn)
                    batch.refuse_other(id_)
            except BaseException:
                await self.lease.reset_after_failure(conn)
                raise
            return answer

        return self.lease.on_loop(transaction())

    def _status(self, conn: AsyncConnection, batch: BatchTransaction) -> str | None:
        return self.lease.on_loop(self._ask(conn, batch))

    async def _ask(self, conn: AsyncConnection, batch: BatchTransaction) -> str | None:
        with guarding(self.schema):
            row = await (await plain_async(conn).execute(*batch.status())).fetchone()
        status: str | None = one(row)[0]
        return status


def roll_back_unless_stored(answer: Answer) -> None:
    if answer is not Answer.STORED:
        raise psycopg.Rollback


def run(
    conn: Connection,
    steps: Steps[T],
    schema: str,
    context: Callable[[str], AbstractContextManager[None]] = guarding,
    *,
    tx: Any = None,
) -> T:
    """Statements run in the context. Handlers are given `tx`."""

    def do(step: Statement | HandlerCall) -> Any:
        if isinstance(step, tuple):
            with context(schema):
                return conn.execute(*step).fetchall()
        refuse_unfinished(step(tx))
        return None

    return drive(steps, do)


async def run_async(conn: AsyncConnection, steps: Steps[T], schema: str, tx: Any) -> T:
    async def do(step: Statement | HandlerCall) -> Any:
        if isinstance(step, tuple):
            with guarding(schema):
                return await (await conn.execute(*step)).fetchall()
        return await step(tx)

    return await drive_async(steps, do)


def handler_calls(
    definition: Definition, messages: list[RecordedMessage], supply: Supply = NOTHING
) -> Iterator[HandlerCall]:
    """The calls of the ordinary handlers, in order; each is given the transaction."""
    for arguments in calls(definition, messages):
        for handling, seen in invocations(definition.ordinary, arguments):
            yield partial(handling, seen, supply)


def calls(
    definition: Definition, messages: list[RecordedMessage]
) -> list[list[RecordedMessage]] | list[RecordedMessage]:
    """What the handlers are called with, one call after another. Nothing is called if one of the
    messages cannot be decoded: then it fails alone."""
    refuse_unreadable(messages)
    if definition.options.handle == "message":
        return messages
    return [messages] if messages else []


def invocations(
    handlers: tuple[Handling, ...], arguments: Arguments
) -> Iterator[tuple[Handling, Arguments]]:
    """All handlers, in order, each with the messages that it is to see. Those by type are called
    together, in the place of the first of them."""
    by_type = tuple(each for each in handlers if each.types is not None)
    for handling in handlers:
        if handling.types is None:
            yield from _seen((handling, arguments))
        elif handling is by_type[0]:
            yield from _seen(*runs(by_type, arguments))


def _seen(*called: tuple[Handling, Arguments]) -> Iterator[tuple[Handling, Arguments]]:
    for handling, arguments in called:
        if (seen := handling.seen_of(arguments)) is not None:
            yield handling, seen


def answer_of(row: tuple[Any, ...] | None) -> Answer:
    """No row: what was to be claimed is gone."""
    return Answer.MISSING if row is None else Answer(row[0])
