"""Handle messages in the very transaction that appends them: no reader, no checkpoint.

A subscriber sees what a processor would see later, and what it does commits or rolls back with the
append. Nothing is ever delivered again, so nothing here can lag, retry or catch up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from milepost import sql
from milepost.db import translated
from milepost.handlers import (
    Handler,
    is_async,
    parameters_of,
    refuse_broken,
    refuse_class,
    refuse_unfinished,
)
from milepost.log.append import append, begin, begin_async
from milepost.log.decode import fetch_messages, fetch_messages_async, refuse_unreadable
from milepost.log.encode import not_a_message
from milepost.log.read import Selection
from milepost.records import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from milepost.db import AsyncConnection, Connection, Statement
    from milepost.records import Position, RecordedMessage

H = TypeVar("H", bound=Handler)


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A handler, and which messages it wants."""

    handler: Handler
    selection: Selection
    is_async: bool
    takes_connection: bool

    def wants(self, message: Message) -> bool:
        if not isinstance(message, Message):
            raise not_a_message(message)
        topics, types = self.selection.topics, self.selection.types
        return (topics is None or message.topic in topics) and (
            types is None or message.type in types
        )

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
                    f"{handler!r} takes a {name}, but a subscriber has none: it is called in the "
                    "transaction that appends, without a checkpoint. Drop the parameter, or make "
                    "it the handler of a processor."
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
        """Append, and have the subscribers handle what they want of it."""
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
        begin(conn, self.schema)
        # One with the append: a caller who catches what a subscriber raised keeps neither.
        with conn.transaction():
            positions = append(conn, *messages, **self._limits())
            appended = self._appended(conn, positions)
            for subscriber in wanting:
                refuse_unfinished(subscriber(_wanted(subscriber, appended), conn))
                refuse_broken(conn)
        return positions

    async def _append_async(
        self, conn: AsyncConnection, messages: Sequence[Message], wanting: list[Subscriber]
    ) -> list[Position]:
        await begin_async(conn, self.schema)
        async with conn.transaction():
            positions = await append(conn, *messages, **self._limits())
            appended = await self._appended_async(conn, positions)
            for subscriber in wanting:
                await subscriber(_wanted(subscriber, appended), conn)
                refuse_broken(conn)
        return positions

    def _appended(self, conn: Connection, positions: list[Position]) -> list[RecordedMessage]:
        """Read back, so that a handler sees the same here as in a processor."""
        with translated(self.schema, "read", conn):
            return fetch_messages(conn, self._reading(positions))

    async def _appended_async(
        self, conn: AsyncConnection, positions: list[Position]
    ) -> list[RecordedMessage]:
        with translated(self.schema, "read", conn):
            return await fetch_messages_async(conn, self._reading(positions))

    def _reading(self, positions: list[Position]) -> Statement:
        # One append is one transaction, so all its positions share the first half.
        parameters = {
            "transaction_id": positions[0].transaction_id,
            "positions": [position.position for position in positions],
        }
        return sql.query("appended_messages", self.schema), parameters

    def _limits(self) -> dict[str, Any]:
        return {"schema": self.schema, "max_payload_bytes": self.max_payload_bytes}


def _wanted(subscriber: Subscriber, messages: list[RecordedMessage]) -> list[RecordedMessage]:
    wanted = [message for message in messages if subscriber.wants(message)]
    refuse_unreadable(wanted)
    return wanted


def _refuse_other_colour(subscribers: list[Subscriber], *, is_async: bool) -> None:
    """Before anything is written."""
    for subscriber in subscribers:
        if subscriber.is_async != is_async:
            colours = ("def", "an async") if is_async else ("async def", "a plain")
            raise TypeError(
                f"{subscriber.handler!r} is {colours[0]}, but the messages are appended on "
                f"{colours[1]} connection, which it shares. Nothing was written. Subscribe with a "
                "handler of the connection's colour."
            )
