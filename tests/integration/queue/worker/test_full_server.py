"""A server that has fewer connections than the handlers would like. On a server of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

from milepost import Job, Milepost, TakenJob, db
from milepost.db import Connection, one
from milepost.embedded import EmbeddedServer
from tests.crashing import migrated_database
from tests.integration.queue.conftest import LONG_LOCK
from tests.integration.queue.worker.working import PATIENCE_SECONDS, is_empty, working
from tests.server import postgres
from tests.waiting import wait_until

SERVER_CONNECTIONS = 25
pytestmark = pytest.mark.usefixtures("quick_heartbeats")


@pytest.fixture(scope="module")
def small_server() -> Iterator[EmbeddedServer]:
    settings = {"max_connections": str(SERVER_CONNECTIONS), "superuser_reserved_connections": "1"}
    with postgres(settings) as server:
        server.start()
        yield server


def test_handlers_starve_neither_heartbeats_nor_completions(small_server: EmbeddedServer) -> None:
    """250 handlers may have 300 connections of a server that has 25."""
    mp = Milepost(migrated_database(small_server), max_connections=300)
    calls: list[int] = []
    is_free = threading.Event()

    @mp.worker("emails", concurrency=250, lock=LONG_LOCK)
    def send(job: TakenJob, tx: Connection) -> None:
        calls.append(job.id)
        assert is_free.wait(PATIENCE_SECONDS)
        tx.execute("select 1")

    with mp.connect() as conn:
        ids = mp.put(conn, *(Job("emails", n, max_attempts=1) for n in range(300)))
        with working(send):
            # As many begin as there are connections; the others wait, and are not lost.
            wait_until(lambda: len(calls) >= SERVER_CONNECTIONS - 6)
            first = "select min(locked_until) from milepost.jobs where status = 'running'"
            before = one(conn.execute(first).fetchone())[0]
            wait_until(lambda: one(conn.execute(first).fetchone())[0] > before)
            is_free.set()
            wait_until(lambda: is_empty(conn))
    assert sorted(calls) == ids


def test_the_worker_s_own_connections_come_first(small_server: EmbeddedServer) -> None:
    """Others take the rest as soon as the worker runs: it can still settle and extend."""
    url = migrated_database(small_server)
    mp = Milepost(url)
    begun, is_free = threading.Event(), threading.Event()

    @mp.worker("emails", concurrency=1, lock=LONG_LOCK)
    def send(job: TakenJob, tx: Connection) -> None:
        begun.set()
        assert is_free.wait(PATIENCE_SECONDS)

    with mp.connect() as conn:
        mp.put(conn, Job("emails", max_attempts=1))
        others: list[Connection] = []
        try:
            with working(send):
                assert begun.wait(PATIENCE_SECONDS)
                with suppress(psycopg.OperationalError):
                    others.extend(db.connect(url) for _ in range(SERVER_CONNECTIONS))
                assert len(others) < SERVER_CONNECTIONS
                first = "select min(locked_until) from milepost.jobs"
                before = one(conn.execute(first).fetchone())[0]
                wait_until(lambda: one(conn.execute(first).fetchone())[0] > before)
                is_free.set()
                wait_until(lambda: is_empty(conn))
        finally:
            for other in others:
                other.close()
