"""What a handler leaves on the session of its transaction is not there for the next job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from milepost import Job, Message, Milepost, RecordedMessage, Retry, TakenJob
from milepost.db import AsyncConnection, Connection
from milepost.errors import MilepostError
from tests.integration.queue.worker.working import statuses, working
from tests.waiting import wait_until

# What a handler does, and what the next one sees: as it would in a new session.
LEFT = {
    "a setting": ("set statement_timeout = '77s'", "show statement_timeout"),
    "a setting by function": (
        "select set_config('lock_timeout', '77s', false)",
        "show lock_timeout",
    ),
    "search_path": ("set search_path = nowhere", "show search_path"),
    "isolation": (
        "set default_transaction_isolation = 'serializable'",
        "show default_transaction_isolation",
    ),
    "our settings": (
        "set client_connection_check_interval = 0",
        "show client_connection_check_interval",
    ),
    "the application's name": ("set application_name = 'mine'", "show application_name"),
    "a role": ("set role COLLEAGUE", "select current_user"),
    "a session's role": ("set session authorization COLLEAGUE", "select session_user"),
    "a temporary table": (
        "create temporary table t as select 1",
        "select to_regclass('pg_temp.t')",
    ),
    "a listener": ("listen something", "select count(*) from pg_listening_channels()"),
    "a cursor": (
        "declare mine cursor with hold for select 1",
        "select count(*) from pg_cursors where name = 'mine'",
    ),
}
EXPECTED = {
    "a setting": "0",
    "a setting by function": "0",
    "search_path": '"$user", public',
    "isolation": "read committed",
    "our settings": "2s",
    "the application's name": "milepost emails",
    "a role": "postgres",
    "a session's role": "postgres",
    "a temporary table": None,
    "a listener": 0,
    "a cursor": 0,
}
LOCK = 4711


@dataclass
class Leaver:
    """Leaves something, and a lock; or looks at what is there."""

    fails: bool
    colleague: str
    seen: dict[str, Any] = field(default_factory=dict)
    _failed: set[str] = field(default_factory=set)

    def handle(self, what: str, tx: Connection) -> None:
        tx.execute(f"select pg_advisory_lock({LOCK})".encode())
        if what == "look":
            self.seen = {name: one(tx, look) for name, (_, look) in LEFT.items()}
            return
        tx.execute(self._leaving(what))
        self._fail_once(what)

    async def handle_async(self, what: str, tx: AsyncConnection) -> None:
        await tx.execute(f"select pg_advisory_lock({LOCK})".encode())
        if what == "look":
            for name, (_, look) in LEFT.items():
                row = await (await tx.execute(look.encode())).fetchone()
                self.seen[name] = None if row is None else row[0]
            return
        await tx.execute(self._leaving(what))
        self._fail_once(what)

    def _leaving(self, what: str) -> bytes:
        return LEFT[what][0].replace("COLLEAGUE", self.colleague).encode()

    def _fail_once(self, what: str) -> None:
        if self.fails and what not in self._failed:
            self._failed.add(what)
            raise ValueError("after it has set something")


def one(conn: Connection, query: str) -> Any:
    row = conn.execute(query.encode()).fetchone()
    return None if row is None else row[0]


@pytest.fixture
def colleague(conn: Connection) -> Iterator[str]:
    """A role that may complete jobs, too."""
    name = f"colleague_{uuid4().hex[:8]}"
    conn.execute(f"create role {name} superuser".encode())
    yield name
    conn.execute(f"drop role {name}".encode())


both_ends = pytest.mark.parametrize("fails", [False, True], ids=["committed", "rolled back"])
colours = pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])


@both_ends
@colours
def test_nothing_that_a_job_has_set_is_there_for_the_next_one(
    mp: Milepost, conn: Connection, colleague: str, is_async: bool, fails: bool
) -> None:
    """One handler, one connection. And nobody waits for a lock that a job has left."""
    leaver = Leaver(fails, colleague)

    def leave(job: TakenJob, tx: Connection) -> None:
        leaver.handle(job.content, tx)

    async def leave_async(job: TakenJob, tx: AsyncConnection) -> None:
        await leaver.handle_async(job.content, tx)

    handler = leave_async if is_async else leave
    worker = mp.worker("emails", concurrency=1, retry=Retry(first_seconds=0))(handler)
    mp.put(conn, *(Job("emails", name) for name in LEFT))
    left = "select count(*) from milepost.jobs"
    with working(worker):
        wait_until(lambda: one(conn, left) == 0)
        assert one(conn, f"select pg_try_advisory_xact_lock({LOCK})") is True
        mp.put(conn, Job("emails", "look"))
        wait_until(lambda: one(conn, left) == 0)
    assert leaver.seen == EXPECTED


@both_ends
@colours
def test_the_same_holds_for_the_batches_of_a_processor(
    mp: Milepost, conn: Connection, colleague: str, is_async: bool, fails: bool
) -> None:
    leaver = Leaver(fails, colleague)

    def leave(messages: list[RecordedMessage], tx: Connection) -> None:
        leaver.handle(messages[0].data, tx)

    async def leave_async(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        await leaver.handle_async(messages[0].data, tx)

    handler = leave_async if is_async else leave
    processor = mp.processor("emails", batch_size=1, retry=Retry(first_seconds=0))(handler)
    mp.append(conn, *(Message("T", name) for name in [*LEFT, "look"]))
    with working(processor):
        wait_until(lambda: leaver.seen)
        wait_until(lambda: one(conn, f"select pg_try_advisory_xact_lock({LOCK})"))
    assert leaver.seen == EXPECTED


def test_a_job_that_leaves_a_role_without_privileges_fails_alone(
    mp: Milepost, conn: Connection
) -> None:
    """It cannot be completed under that role; the next one can."""

    @mp.worker("emails", concurrency=1, retry={psycopg.Error: None, MilepostError: None})
    def send(job: TakenJob, tx: Connection) -> None:
        if job.content == "role":
            tx.execute("set role pg_monitor")

    mp.put(conn, Job("emails", "role"), Job("emails"))
    with working(send):
        wait_until(lambda: statuses(conn) == [("dead", 1, 1)])
    assert "cannot be completed with the role" in one(conn, "select last_error from milepost.jobs")


def test_a_connection_that_changes_its_owner_has_no_prepared_names(
    url: str, conn: Connection
) -> None:
    """One connection for the jobs of two workers."""
    few = Milepost(url, max_connections=4)
    seen: list[int] = []

    @few.worker("first", poll_seconds=0.05)
    def first(job: TakenJob, tx: Connection) -> None:
        tx.execute(f"prepare name_{job.id} as select 1".encode())

    @few.worker("second", poll_seconds=0.05)
    def second(job: TakenJob, tx: Connection) -> None:
        seen.append(one(tx, "select count(*) from pg_prepared_statements where from_sql"))

    with working(first, second):
        for n in range(5):
            few.put(conn, Job("first"))
            wait_until(lambda: not statuses(conn))
            few.put(conn, Job("second"))
            wait_until(lambda n=n: len(seen) > n)  # type: ignore[misc]
    assert seen == [0] * 5
