"""Milepost: where a URL (or the embedded server) and a schema become the rooms. No logic."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, overload

from milepost import db, log, sql
from milepost import migrate as migrations
from milepost.embedded import EmbeddedServer
from milepost.log.encode import DEFAULT_MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping, Sequence

    from milepost.db import AsyncConnection, Connection
    from milepost.records import Message, Position, RecordedMessage, Segment

DEFAULT_DIRECTORY = Path(".milepost")
_LIBPQ_VARIABLES = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE")


class Milepost:
    """A log and what works on it, in one schema of one database.

    The database is `url`, else MILEPOST_URL, else what the PG* variables say, else the embedded
    server, which is started if need be.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        schema: str = sql.DEFAULT_SCHEMA,
        directory: Path = DEFAULT_DIRECTORY,
        max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES,
    ) -> None:
        self.schema = sql.check_schema_name(schema)
        self.max_payload_bytes = max_payload_bytes
        self._url = url if url is not None else find_url(os.environ, directory)
        self._is_checked = False

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A connection in autocommit mode, closed at the end; `conn.transaction()` opens a
        transaction. The first one finds out whether the schema fits this code."""
        with db.connect(self._url) as conn:
            if not self._is_checked:
                db.check_schema(conn, self.schema)
                self._is_checked = True
            yield conn

    def migrate(self, order: sql.LogOrder | None = None) -> list[migrations.Step]:
        """Bring the database to the schema this code needs; harmless when it is there."""
        with db.connect(self._url) as conn:
            return migrations.migrate(conn, self.schema, order)

    def pending_migrations(self, order: sql.LogOrder | None = None) -> list[migrations.Step]:
        """What `migrate` would run, without running it."""
        with db.connect(self._url) as conn:
            return migrations.plan(conn, self.schema, order)

    @overload
    def append(self, conn: Connection, *messages: Message) -> list[Position]: ...
    @overload
    def append(self, conn: AsyncConnection, *messages: Message) -> Awaitable[list[Position]]: ...
    def append(
        self, conn: Connection | AsyncConnection, *messages: Message
    ) -> list[Position] | Awaitable[list[Position]]:
        """`milepost.append` with this instance's schema and payload limit."""
        return log.append(
            conn, *messages, schema=self.schema, max_payload_bytes=self.max_payload_bytes
        )

    @contextmanager
    def reader(
        self,
        start: log.Start = "beginning",
        *,
        topics: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        segment: Segment | None = None,
        batch_size: int = 1000,
    ) -> Iterator[log.Reader]:
        """A reader on a connection of its own, for reading batch by batch."""
        selection = log.Selection(topics, types, segment)
        with self.connect() as conn:
            after = log.start_position(conn, start, self.schema)
            yield log.Reader(conn, after, selection, batch_size, self.schema)

    def read(
        self,
        start: log.Start = "beginning",
        *,
        topics: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        segment: Segment | None = None,
        follow: bool = False,
        poll_seconds: float = 1.0,
        batch_size: int = 1000,
    ) -> Iterator[RecordedMessage]:
        """The messages after `start`, in order; with `follow`, waits for more for ever."""
        with self.reader(
            start, topics=topics, types=types, segment=segment, batch_size=batch_size
        ) as reader:
            yield from reader.follow(poll_seconds) if follow else reader.messages()

    def horizon(self) -> Position:
        """The highest position below which nothing can appear any more."""
        with self.connect() as conn:
            return log.horizon(conn, self.schema).position

    def __repr__(self) -> str:
        # Without the URL: it may hold a password.
        return f"Milepost(schema={self.schema!r})"


def find_url(environ: Mapping[str, str], directory: Path = DEFAULT_DIRECTORY) -> str:
    """MILEPOST_URL, else empty (libpq reads its PG* variables), else the embedded server's."""
    if url := environ.get("MILEPOST_URL"):
        return url
    if any(environ.get(name) for name in _LIBPQ_VARIABLES):
        return ""
    return EmbeddedServer(directory).start()
