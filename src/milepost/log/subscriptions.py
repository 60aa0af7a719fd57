"""Handle messages in the transaction that appends them: no reader, no checkpoint.

A subscriber gets the messages that a processor would get later. Its effects commit or roll back
with the append. Nothing is delivered again, so there is no lag, no retry and no catching up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from milepost import sql
from milepost.drivers import AsyncDriver, Driver, driver_of
from milepost.handlers import (
    Handler,
    is_async,
    parameters_of,
    refuse_broken,
    refuse_class,
    refuse_unfinished,
)
from milepost.log.append import Appending, append_as
from milepost.log.conditions import UNCONDITIONAL, Conditions
from milepost.log.decode import (
    fetch_messages,
    fetch_messages_async,
    from_text,
    refuse_unreadable,
)
from milepost.log.encode import not_a_message
from milepost.log.read import appended, appended_text
from milepost.log.selection import Selection
from milepost.records import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from milepost.db import Statement
    from milepost.drivers import AnyAsyncConnection, AnyConnection, PendingDriver
    from milepost.records import Position, RecordedMessage

H = TypeVar("H", bound=Handler)
# The server refuses any statement in a transaction that has failed.
_ANYTHING: Statement = (sql.query("queue_time"), {})


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
        self,
        conn: AnyConnection | AnyAsyncConnection,
        messages: Sequence[Message],
        conditions: Conditions = UNCONDITIONAL,
    ) -> list[Position] | Awaitable[list[Position]]:
        """Append, and call the subscribers with the messages they select. They get what the caller
        has passed: a Session too. Not called with messages that were in the log before: their
        subscribers were called then."""
        how = Appending(self.schema, self.max_payload_bytes, conditions)
        wanting = [s for s in self._subscribers if any(map(s.wants, messages))]
        if not wanting:
            return append_as(conn, messages, how)
        driver = driver_of(conn)
        _refuse_other_colour(wanting, is_async=not isinstance(driver, Driver))
        if isinstance(driver, Driver):
            return self._append(driver, conn, messages, how, wanting)
        return self._append_async(driver, conn, messages, how, wanting)

    def _append(
        self,
        driver: Driver,
        conn: Any,
        messages: Sequence[Message],
        how: Appending,
        wanting: list[Subscriber],
    ) -> list[Position]:
        # One block for both: if a subscriber raises, the append is rolled back too.
        driver.check()
        with driver.savepoint():
            positions: list[Position] = append_as(conn, messages, how)
            # From the log, so that a handler gets the same values as in a processor.
            with driver.errors(self.schema, "read"):
                found = _appended(driver, _new(positions, how), self.schema)
            for subscriber in wanting:
                if wanted := _wanted(subscriber, found):
                    refuse_unfinished(subscriber(wanted, conn))
                    self._refuse_broken(driver)
        return positions

    async def _append_async(
        self,
        given: AsyncDriver | PendingDriver,
        conn: Any,
        messages: Sequence[Message],
        how: Appending,
        wanting: list[Subscriber],
    ) -> list[Position]:
        driver = given if isinstance(given, AsyncDriver) else await given()
        driver.check()
        async with driver.savepoint():
            positions: list[Position] = await append_as(conn, messages, how)
            with driver.errors(self.schema, "read"):
                found = await _appended_async(driver, _new(positions, how), self.schema)
            for subscriber in wanting:
                if wanted := _wanted(subscriber, found):
                    await subscriber(wanted, conn)
                    await self._refuse_broken_async(driver)
        return positions

    def _refuse_broken(self, driver: Driver) -> None:
        if driver.psycopg is not None:
            refuse_broken(driver.psycopg)
            return
        with driver.errors(self.schema, "append"):
            driver.do(_ANYTHING)

    async def _refuse_broken_async(self, driver: AsyncDriver) -> None:
        if driver.psycopg is not None:
            refuse_broken(driver.psycopg)
            return
        with driver.errors(self.schema, "append"):
            await driver.do(_ANYTHING)


def _new(positions: list[Position], how: Appending) -> list[Position]:
    return [position for position in positions if position not in how.known]


def _appended(driver: Driver, positions: list[Position], schema: str) -> list[RecordedMessage]:
    if driver.psycopg is not None:
        return fetch_messages(driver.psycopg, appended(positions, schema))
    return from_text(driver.do(appended_text(positions, schema)))


async def _appended_async(
    driver: AsyncDriver, positions: list[Position], schema: str
) -> list[RecordedMessage]:
    if driver.psycopg is not None:
        return await fetch_messages_async(driver.psycopg, appended(positions, schema))
    return from_text(await driver.do(appended_text(positions, schema)))


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
