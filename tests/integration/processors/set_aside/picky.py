"""A handler that fails on the keys it dislikes, in every way in which a handler can be called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from milepost import Message, Milepost, Position, RecordedMessage, Retry, sql
from milepost.db import AsyncConnection, Connection
from milepost.processors import Processor
from milepost.processors.set_aside.dead_letters import list_dead_letters, request_retry

SCHEMA = sql.DEFAULT_SCHEMA
NEVER_AGAIN = Retry(limit=0)
TABLE = (
    "create table seen (number bigint generated always as identity, key text, n integer not null)"
)
INSERT = "insert into seen (key, n) values (%s, %s)"


@dataclass(slots=True)
class Picky:
    """Leaves a row in `seen` for every message, then fails if it dislikes the key."""

    url: str
    disliked: set[str | None] = field(default_factory=set)
    calls: int = 0
    disliked_numbers: set[int] = field(default_factory=set)

    def processor(
        self,
        mp: Milepost,
        delivery: str = "exactly_once",
        colour: str = "def",
        handle: str = "batch",
        **options: Any,
    ) -> Processor:
        handler = getattr(self, f"{delivery}_{colour}_{handle}")
        chosen = {"retry": NEVER_AGAIN, "on_failure": "park", "poll_seconds": 0.05} | options
        decorate = mp.processor("picky", delivery=delivery, handle=handle, **chosen)  # type: ignore[arg-type]  # texts
        return decorate(handler)

    def exactly_once_def_batch(self, messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            self.exactly_once_def_message(message, tx)

    def exactly_once_def_message(self, message: RecordedMessage, tx: Connection) -> None:
        self.calls += 1
        tx.execute(INSERT, [message.key, message.data["n"]])
        self._judge(message)

    async def exactly_once_async_batch(
        self, messages: list[RecordedMessage], tx: AsyncConnection
    ) -> None:
        for message in messages:
            await self.exactly_once_async_message(message, tx)

    async def exactly_once_async_message(
        self, message: RecordedMessage, tx: AsyncConnection
    ) -> None:
        self.calls += 1
        await tx.execute(INSERT, [message.key, message.data["n"]])
        self._judge(message)

    def at_least_once_def_batch(self, messages: list[RecordedMessage]) -> None:
        for message in messages:
            self.at_least_once_def_message(message)

    def at_least_once_def_message(self, message: RecordedMessage) -> None:
        """Fails before it leaves anything: what was left stays."""
        self.calls += 1
        self._judge(message)
        with psycopg.connect(self.url, autocommit=True) as own:
            own.execute(INSERT, [message.key, message.data["n"]])

    async def at_least_once_async_batch(self, messages: list[RecordedMessage]) -> None:
        for message in messages:
            self.at_least_once_def_message(message)

    async def at_least_once_async_message(self, message: RecordedMessage) -> None:
        self.at_least_once_def_message(message)

    def _judge(self, message: RecordedMessage) -> None:
        if message.key in self.disliked or message.data["n"] in self.disliked_numbers:
            raise RuntimeError(f"no {message.key}")


@dataclass(frozen=True, slots=True)
class Table:
    """What is in the database, for a test to look at."""

    mp: Milepost
    conn: Connection

    def append(self, *pairs: tuple[str | None, int]) -> list[Position]:
        """Messages of these keys and numbers."""
        return self.mp.append(self.conn, *(Message("Done", {"n": n}, key=key) for key, n in pairs))

    def seen(self) -> list[tuple[str | None, int]]:
        """In the order in which they were handled."""
        return [(key, n) for key, n in self.conn.execute("select key, n from seen order by number")]

    def seen_of(self, key: str | None) -> list[int]:
        return [n for k, n in self.seen() if k == key]

    def letters(self) -> list[tuple[str | None, int]]:
        found = list_dead_letters(self.conn, SCHEMA)
        return [(each.key, each.data["n"]) for each in found if each.is_parked]

    def parked(self) -> list[str]:
        return [
            row[0] for row in self.conn.execute("select key from milepost.parked_keys order by 1")
        ]

    def retry(self, *keys: str | None) -> int:
        """As an operator asks for it; how many letters it means."""
        found = list_dead_letters(self.conn, SCHEMA)
        return request_retry(self.conn, SCHEMA, [each.id for each in found if each.key in keys])

    def is_empty(self) -> bool:
        """Nothing is set aside any more."""
        return not self.parked() and not list_dead_letters(self.conn, SCHEMA)


def pairs(key: str | None, numbers: Iterable[int]) -> list[tuple[str | None, int]]:
    return [(key, n) for n in numbers]
