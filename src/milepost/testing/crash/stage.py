"""The database in which the runs happen: prepared once, restored for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from psycopg.conninfo import make_conninfo

from milepost import db, log, queue
from milepost.records import Job, Message
from milepost.testing.databases import Databases, name_of_test_database
from milepost.testing.snapshot import OUTSIDE, Snapshot, take_snapshot

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.processors import Processor
    from milepost.queue import Worker

MAINTENANCE = "postgres"


@dataclass(frozen=True, slots=True)
class Outside:
    """What a handler changes outside the database: how to read it, as a JSON value, and how to put
    it back to where it was before the first run."""

    read: Callable[[], Any]
    reset: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Stage:
    """The database in which all runs happen, and a copy of how it was before the first one."""

    url: str = field(repr=False)
    schema: str
    databases: Databases
    name: str
    copy: str
    outside: Outside | None

    def restore(self) -> None:
        # The server itself would look again only after a tenth of a second.
        self.databases.wait_for_no_session(self.name)
        self.databases.drop_database(self.name)
        self.databases.copy_database(self.copy, self.name)
        if self.outside is not None:
            self.outside.reset()

    def recover(self) -> None:
        """After a crash: its sessions are gone, and what they held is free."""
        self.databases.wait_for_no_session(self.name)
        self.expire()

    def expire(self) -> None:
        """The time for which work was held is over, and what failed because of a lost connection
        is due again."""
        with db.connect(self.url) as conn:
            db.run(conn, self.schema, "testing_expire")
            db.run(conn, self.schema, "testing_recover")

    def snapshot(self) -> Snapshot:
        with db.connect(self.url) as conn:
            found = take_snapshot(conn, self.schema)
        if self.outside is None:
            return found
        rows = {**found.rows, OUTSIDE: [{"value": self.outside.read()}]}
        return replace(found, rows=rows)


@contextmanager
def prepared(
    member: Processor | Worker, items: Sequence[Message | Job], outside: Outside | None
) -> Iterator[Stage]:
    url, schema = member.runtime.url, member.runtime.schema
    name = name_of_test_database(url)
    with db.connect(url) as conn, conn.transaction():
        _add(conn, items, schema)
    databases = Databases(make_conninfo(url, dbname=MAINTENANCE))
    try:
        databases.make_template(name, schema)
        copy = databases.create_database("test_prepared", template=name)
        try:
            yield Stage(url, schema, databases, name, copy, outside)
        finally:
            databases.drop_database(copy)
    finally:
        databases.close()


def _add(conn: Connection, items: Sequence[Message | Job], schema: str) -> None:
    if messages := [item for item in items if isinstance(item, Message)]:
        log.append(conn, *messages, schema=schema)
    if jobs := [item for item in items if isinstance(item, Job)]:
        queue.put(conn, *jobs, schema=schema)
