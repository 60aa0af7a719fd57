"""Call a handler under a guard: a statement that must answer 1, or nothing happens.

The guard is what makes effects happen once: a checkpoint's compare-and-set, or the claim of a
dead letter. Exactly once, guard and effects are one transaction, and the guard comes first, so
that a mismatch costs no work. At least once, the handler has no transaction and the guard
follows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import psycopg

from milepost.checkpoints import Answer
from milepost.db import Statement, translated

if TYPE_CHECKING:
    from milepost.db import AsyncConnection, Connection
    from milepost.processors.colour import EventLoop
    from milepost.processors.definition import Definition
    from milepost.processors.inbox import Inbox
    from milepost.records import RecordedMessage


class Effects(Protocol):
    """How one processor's handler takes effect."""

    def apply(self, messages: list[RecordedMessage], guard: Statement) -> Answer:
        """Handle the messages if the guard holds. Raises what the handler raises; then, and
        with any answer but STORED, an exactly-once handler has left no trace."""
        ...

    def is_lost(self) -> bool:
        """Whether the connection that the effects need is gone."""
        ...


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    definition: Definition
    conn: Connection
    schema: str

    def apply(self, messages: list[RecordedMessage], guard: Statement) -> Answer:
        answer = Answer.MISSING
        with self.conn.transaction():
            answer = self._guarded(guard)
            if answer is not Answer.STORED:
                raise psycopg.Rollback
            for arguments in calls(self.definition, messages):
                self.definition.handler(arguments, self.conn)
        return answer

    def is_lost(self) -> bool:
        return self.conn.closed

    def _guarded(self, guard: Statement) -> Answer:
        try:
            with translated(self.schema):
                return answer_of(self.conn.execute(*guard).fetchone())
        except psycopg.errors.LockNotAvailable:
            return Answer.FURTHER  # a competitor has held the row for longer than we wait


@dataclass(frozen=True, slots=True)
class ExactlyOnceAsync:
    """The same for an `async def` handler, on an async connection of the processor's loop."""

    definition: Definition
    conn: AsyncConnection
    loop: EventLoop
    schema: str

    def apply(self, messages: list[RecordedMessage], guard: Statement) -> Answer:
        return self.loop.run(self._apply(messages, guard))

    def is_lost(self) -> bool:
        return self.conn.closed

    async def _apply(self, messages: list[RecordedMessage], guard: Statement) -> Answer:
        answer = Answer.MISSING
        async with self.conn.transaction():
            answer = await self._guarded(guard)
            if answer is not Answer.STORED:
                raise psycopg.Rollback
            for arguments in calls(self.definition, messages):
                await self.definition.handler(arguments, self.conn)
        return answer

    async def _guarded(self, guard: Statement) -> Answer:
        try:
            with translated(self.schema):
                cursor = await self.conn.execute(*guard)
                return answer_of(await cursor.fetchone())
        except psycopg.errors.LockNotAvailable:
            return Answer.FURTHER


@dataclass(frozen=True, slots=True)
class AtLeastOnce:
    """Effects first, guard after: what dies in between is handled again."""

    definition: Definition
    conn: Connection
    loop: EventLoop | None
    inbox: Inbox | None
    schema: str

    def apply(self, messages: list[RecordedMessage], guard: Statement) -> Answer:
        self.handle(messages)
        with translated(self.schema):
            return answer_of(self.conn.execute(*guard).fetchone())

    def handle(self, messages: list[RecordedMessage]) -> None:
        """Handle what the inbox does not know yet, and let it know."""
        fresh = messages if self.inbox is None else self.inbox.unknown(messages)
        for arguments in calls(self.definition, fresh):
            result = self.definition.handler(arguments)
            if self.loop is not None:
                self.loop.run(result)
        if self.inbox is not None:
            self.inbox.record(fresh)

    def is_lost(self) -> bool:
        return self.conn.closed


def calls(
    definition: Definition, messages: list[RecordedMessage]
) -> list[list[RecordedMessage]] | list[RecordedMessage]:
    """What the handler is called with, one call after the other."""
    if definition.options.handle == "message":
        return messages
    return [messages] if messages else []


def answer_of(row: tuple[int, ...] | None) -> Answer:
    """No row: what was to be claimed is no longer there."""
    return Answer.MISSING if row is None else Answer(row[0])
