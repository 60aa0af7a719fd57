"""Handle messages in the transaction that appends them: no reader, no checkpoint.

A subscriber gets the messages that a processor would get later. Its effects commit or roll back
with the append. Nothing is delivered again, so there is no lag, no retry and no catching up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from milepost.db import translated
from milepost.handlers import (
    Handler,
    is_async,
    parameters_of,
    refuse_broken,
    refuse_class,
    refuse_unfinished,
)
from milepost.log.append import append
from milepost.log.decode import fetch_messages, fetch_messages_async, refuse_unreadable
from milepost.log.encode import not_a_message
from milepost.log.read import appended
from milepost.log.selection import Selection
from milepost.records import Message
from milepost.steps import savepoint, savepoint_async

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from milepost.db import AsyncConnection, Connection
    from milepost.records import Position, RecordedMessage

H = TypeVar("H", bound=Handler)


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A handler, and the messages it selects."""

    handler: Handler
    selection: Selection
    is_async: bool
    takes_connection: bool

    def wants(self, message: Message) -> bool:
        if not isinstance(message, Message):
            raise not_a_message(message)
        return self.selection.selects(message)

    def __call__(self, messages: list[RecordedMessage], conn: object) -> Any:
        return self.handler(messages, conn) if self.takes_connection else self.handler(messages)


@dataclass(slots=True)
class Subscriptions:
    """The subscribers of one application, called in the order in which they subscribed."""

    schema: str
    max_payload_bytes: int
    _subscribers: list[Subscriber] = field(default_factory=list, init=False)

    def add(self, handler: H, topics: Sequence[str] | None, types: Sequence[str] | None) -> H:
        refuse_class(handler)
        parameters = parameters_of(handler)
        for name in ("trigger", "segment"):
            if name in parameters.names:
                raise TypeError(
                    f"{handler!r} has a parameter {name}, but a subscriber gets none: it is called "
                    "in the transaction that appends, without a checkpoint. Remove the parameter, "
                    "or make it the handler of a processor."
                )
        takes_connection = parameters.takes_any or bool(parameters.names)
        selection = Selection(topics, types)
        self._subscribers.append(
            Subscriber(handler, selection, is_async(handler), takes_connection)
        )
        return handler

    def append(
        self, conn: Connection | AsyncConnection, messages: Sequence[Message]
    ) -> list[Position] | Awaitable[list[Position]]:
        """Append, and call the subscribers with the messages they select."""
        wanting = [s for s in self._subscribers if any(map(s.wants, messages))]
        if not wanting:
            return append(conn, *messages, **self._limits())
        _refuse_other_colour(wanting, is_async=isinstance(conn, psycopg.AsyncConnection))
        if isinstance(conn, psycopg.AsyncConnection):
            return self._append_async(conn, messages, wanting)
        return self._append(conn, messages, wanting)

    def _append(
        self, conn: Connection, messages: Sequence[Message], wanting: list[Subscriber]
    ) -> list[Position]:
        # One block for both: if a subscriber raises, the append is rolled back too.
        with savepoint(conn):
            positions = append(conn, *messages, **self._limits())
            # From the log, so that a handler gets the same values as in a processor.
            with translated(self.schema, "read", conn):
                found = fetch_messages(conn, appended(positions, self.schema))
            for subscriber in wanting:
                refuse_unfinished(subscriber(_wanted(subscriber, found), conn))
                refuse_broken(conn)
        return positions

    async def _append_async(
        self, conn: AsyncConnection, messages: Sequence[Message], wanting: list[Subscriber]
    ) -> list[Position]:
        async with savepoint_async(conn):
            positions = await append(conn, *messages, **self._limits())
            with translated(self.schema, "read", conn):
                found = await fetch_messages_async(conn, appended(positions, self.schema))
            for subscriber in wanting:
                await subscriber(_wanted(subscriber, found), conn)
                refuse_broken(conn)
        return positions

    def _limits(self) -> dict[str, Any]:
        return {"schema": self.schema, "max_payload_bytes": self.max_payload_bytes}


def _wanted(subscriber: Subscriber, messages: list[RecordedMessage]) -> list[RecordedMessage]:
    wanted = [message for message in messages if subscriber.wants(message)]
    refuse_unreadable(wanted)
    return wanted


def _refuse_other_colour(subscribers: list[Subscriber], *, is_async: bool) -> None:
    """Called before anything is written."""
    for subscriber in subscribers:
        if subscriber.is_async != is_async:
            colours = ("def", "an async") if is_async else ("async def", "a plain")
            raise TypeError(
                f"{subscriber.handler!r} is {colours[0]}, but the messages are appended on "
                f"{colours[1]} connection, which it shares. Nothing was written. Subscribe an "
                f"{'async def' if is_async else 'def'} handler."
            )
