"""Call a handler under a guard: a statement that must answer 1, or nothing happens.

The guard is what makes effects happen once: a checkpoint's compare-and-set, or the claim of a
dead letter. Exactly once, guard and effects are one transaction, and the guard comes first, so
that a mismatch costs no work. At least once, the handler has no transaction and the guard
follows it.

A handler could end the transaction of the guard by itself, with a COMMIT in SQL. So the guard also
tells the transaction's id: after a failure it is asked whether that transaction was committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
from psycopg.rows import tuple_row

from milepost import sql
from milepost.checkpoints import Answer
from milepost.db import Statement, one, plain, plain_async
from milepost.errors import TransactionEnded
from milepost.handlers import refuse_broken, refuse_unfinished
from milepost.log import refuse_unreadable
from milepost.processors.conflict import GuardFailed, guarding
from milepost.processors.handling import NOTHING, Supply
from milepost.processors.parking import run, run_async, without

if TYPE_CHECKING:
    from milepost.db import AsyncConnection, Connection
    from milepost.processors.colour import EventLoop
    from milepost.processors.definition import Definition
    from milepost.processors.handling import Arguments, Handling
    from milepost.processors.inbox import Inbox
    from milepost.processors.parking import Parking
    from milepost.records import RecordedMessage


COMMITTED = "committed"  # what pg_xact_status() says


class Effects(Protocol):
    """How one processor's handler takes effect."""

    def apply(
        self, messages: list[RecordedMessage], guard: Statement, parking: Parking | None = None
    ) -> Answer:
        """Handle the messages if the guard holds, but for those of parked keys, which are set
        aside. Raises what the handler raises; then, and with any answer but STORED, an
        exactly-once handler has left no trace."""
        ...

    def is_lost(self) -> bool:
        """Whether the connection that the effects need is gone."""
        ...


@dataclass(slots=True)
class Begun:
    """The transaction of a guard that held; None before."""

    id: str | None = None

    def status(self, schema: str) -> Statement:
        """Asks what became of it."""
        return sql.query("transaction_status", schema), {"id": self.id}


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    definition: Definition
    conn: Connection
    schema: str
    supply: Supply = NOTHING

    def apply(
        self, messages: list[RecordedMessage], guard: Statement, parking: Parking | None = None
    ) -> Answer:
        begun = Begun()
        try:
            return self._apply(messages, guard, parking, begun)
        except Exception as error:
            if self._was_committed(begun):
                raise committed_by_handler(self.definition, messages, error) from error
            raise
        finally:
            # A handler may set it for itself; guards and reports read plain rows.
            self.conn.row_factory = tuple_row

    def is_lost(self) -> bool:
        return self.conn.closed

    def _was_committed(self, begun: Begun) -> bool:
        if begun.id is None or self.conn.closed:
            return False
        with guarding(self.schema):
            row = plain(self.conn).execute(*begun.status(self.schema)).fetchone()
        return bool(one(row)[0] == COMMITTED)

    def _apply(
        self,
        messages: list[RecordedMessage],
        guard: Statement,
        parking: Parking | None,
        begun: Begun,
    ) -> Answer:
        answer = Answer.MISSING
        with self.conn.transaction():
            with guarding(self.schema):
                row = self.conn.execute(*guard).fetchone()
                if (answer := answer_of(row)) is Answer.STORED and parking is not None:
                    messages = run(self.conn, parking.sift(messages, row))
            if answer is not Answer.STORED:
                raise psycopg.Rollback
            begun.id = transaction_of(row)
            for arguments in calls(self.definition, messages):
                for handling, seen in invocations(self.definition.ordinary, arguments):
                    refuse_unfinished(handling(seen, self.supply, self.conn))
            refuse_broken(self.conn)
        return answer


@dataclass(frozen=True, slots=True)
class ExactlyOnceAsync:
    """The same for an `async def` handler, on an async connection of the processor's loop."""

    definition: Definition
    conn: AsyncConnection
    loop: EventLoop
    schema: str
    supply: Supply = NOTHING

    def apply(
        self, messages: list[RecordedMessage], guard: Statement, parking: Parking | None = None
    ) -> Answer:
        begun = Begun()
        try:
            return self.loop.run(self._apply(messages, guard, parking, begun))
        except Exception as error:
            if self.loop.run(self._was_committed(begun)):
                raise committed_by_handler(self.definition, messages, error) from error
            raise
        finally:
            self.conn.row_factory = tuple_row

    def is_lost(self) -> bool:
        return self.conn.closed

    async def _was_committed(self, begun: Begun) -> bool:
        if begun.id is None or self.conn.closed:
            return False
        with guarding(self.schema):
            found = await plain_async(self.conn).execute(*begun.status(self.schema))
            return bool(one(await found.fetchone())[0] == COMMITTED)

    async def _apply(
        self,
        messages: list[RecordedMessage],
        guard: Statement,
        parking: Parking | None,
        begun: Begun,
    ) -> Answer:
        answer = Answer.MISSING
        async with self.conn.transaction():
            with guarding(self.schema):
                row = await (await self.conn.execute(*guard)).fetchone()
                if (answer := answer_of(row)) is Answer.STORED and parking is not None:
                    messages = await run_async(self.conn, parking.sift(messages, row))
            if answer is not Answer.STORED:
                raise psycopg.Rollback
            begun.id = transaction_of(row)
            for arguments in calls(self.definition, messages):
                for handling, seen in invocations(self.definition.ordinary, arguments):
                    await handling(seen, self.supply, self.conn)
            refuse_broken(self.conn)
        return answer


@dataclass(frozen=True, slots=True)
class AtLeastOnce:
    """Effects first, guard after: what dies in between is handled again."""

    definition: Definition
    conn: Connection
    loop: EventLoop | None
    inbox: Inbox | None
    schema: str
    supply: Supply = NOTHING

    def apply(
        self, messages: list[RecordedMessage], guard: Statement, parking: Parking | None = None
    ) -> Answer:
        if parking is not None:
            return self._apply_parking(messages, guard, parking)
        self.handle(messages)
        with guarding(self.schema):
            return answer_of(self.conn.execute(*guard).fetchone())

    def _apply_parking(
        self, messages: list[RecordedMessage], guard: Statement, parking: Parking
    ) -> Answer:
        """Looked up before, set aside after: no lock is held while the handler runs."""
        with guarding(self.schema):
            held = run(self.conn, parking.held_back(messages))
        self.handle(without(messages, held))
        with guarding(self.schema), self.conn.transaction():
            row = self.conn.execute(*guard).fetchone()
            if (answer := answer_of(row)) is Answer.STORED:
                run(self.conn, parking.hold(held, row))
        return answer

    def handle(self, messages: list[RecordedMessage]) -> None:
        """Handle what the inbox does not know yet, and let it know; also of those that were
        handled before one failed."""
        if self.inbox is None:
            self._call(messages, [])
            return
        handled: list[RecordedMessage] = []
        with guarding(self.schema):
            fresh = self.inbox.unknown(messages)
        try:
            self._call(fresh, handled)
        finally:
            if handled:
                with guarding(self.schema):
                    self.inbox.record(handled)

    def is_lost(self) -> bool:
        return self.conn.closed

    def _call(self, messages: list[RecordedMessage], handled: list[RecordedMessage]) -> None:
        if not self.definition.ordinary:
            raise TypeError(
                "The handlers checkpoint themselves, so that a message handled alone would not be "
                "durable when its dead letter is gone. Append it again, and drop the letter."
            )
        for arguments in calls(self.definition, messages):
            for handling, seen in invocations(self.definition.ordinary, arguments):
                finish(handling, handling(seen, self.supply), self.loop)
            handled += arguments if isinstance(arguments, list) else [arguments]


def calls(
    definition: Definition, messages: list[RecordedMessage]
) -> list[list[RecordedMessage]] | list[RecordedMessage]:
    """What the handlers are called with, one call after the other. None is, if one of the messages
    cannot be decoded: then it fails alone."""
    refuse_unreadable(messages)
    if definition.options.handle == "message":
        return messages
    return [messages] if messages else []


def invocations(
    handlers: tuple[Handling, ...], arguments: Arguments
) -> Iterator[tuple[Handling, Arguments]]:
    """All handlers, in order, each with what it is to see."""
    for handling in handlers:
        if (seen := handling.seen_of(arguments)) is not None:
            yield handling, seen


def finish(handling: Handling, result: Any, loop: EventLoop | None) -> None:
    """Wait for a coroutine; whatever else has not finished is refused."""
    if handling.is_async and loop is not None:
        loop.run(result)
    else:
        refuse_unfinished(result)


def answer_of(row: tuple[Any, ...] | None) -> Answer:
    """No row: what was to be claimed is no longer there."""
    return Answer.MISSING if row is None else Answer(row[0])


def transaction_of(row: tuple[Any, ...] | None) -> str:
    """The last column of every guard."""
    return str(one(row)[-1])


def committed_by_handler(
    definition: Definition, messages: list[RecordedMessage], error: Exception
) -> GuardFailed:
    """No failure that could be retried or set aside: the guard's part is done for good."""
    first, last = (str(messages[place].position) for place in (0, -1))
    cause = f"{type(error).__name__}: {error}"
    return GuardFailed(TransactionEnded(definition.options.name, first, last, cause))
