"""The server goes and comes back while a processor runs: it goes on, every effect once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from milepost import Message, Milepost, RecordedMessage, db
from milepost.db import Connection
from milepost.embedded import EmbeddedServer
from milepost.sql import LogOrder
from tests.integration.processors.running import leave_all, running
from tests.server import postgres
from tests.waiting import wait_until

Restart = Callable[[EmbeddedServer], None]


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedServer]:
    """Not the one of the run: other tests use that."""
    with postgres() as server:
        server.start()
        yield server


def stop_and_start(server: EmbeddedServer) -> None:
    server.stop()
    server.start()


def crash_and_start(server: EmbeddedServer) -> None:
    """As when its machine loses power: the postmaster takes everybody along."""
    pid = int((server.directory / "postgres" / "postmaster.pid").read_text().split("\n")[0])
    os.kill(pid, signal.SIGKILL)
    server.start()


@pytest.fixture
def own_url(
    own_server: EmbeddedServer, order: LogOrder, restart: Restart, segments: int | None
) -> str:
    name = f"{restart.__name__}_{order}_{segments or 0}"
    with db.connect(own_server.start()) as conn:
        conn.execute(f"create database {name}".encode())
    url = own_server.url(name)
    assert url is not None
    Milepost(url).migrate(order)
    with db.connect(url) as conn:
        conn.execute(
            "create table effects (number bigint generated always as identity, "
            "transaction_id bigint, position bigint)"
        )
    return url


@contextmanager
def appending(url: str) -> Iterator[list[int]]:
    """Somebody who appends all the time, whether the server is there or not; how many."""
    stop, appended = threading.Event(), [0]

    def append() -> None:
        mp = Milepost(url)
        while not stop.wait(0.005):
            try:
                with mp.connect() as conn:
                    mp.append(conn, Message("Counted", {}))
                    appended[0] += 1
            except psycopg.OperationalError:
                continue

    thread = threading.Thread(target=append)
    thread.start()
    try:
        yield appended
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("segments", [None, 4])
@pytest.mark.parametrize("restart", [stop_and_start, crash_and_start])
def test_a_processor_goes_on_after_its_server_came_back(
    own_server: EmbeddedServer, own_url: str, restart: Restart, segments: int | None
) -> None:
    @Milepost(own_url).processor("surviving", batch_size=2, segments=segments)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)

    with running(keep) as (instance,):
        wait_until(instance.has_connected)  # a first connection that fails is an error
        with appending(own_url) as appended:
            for _ in range(2):
                goal = appended[0] + 10
                wait_until(lambda goal=goal: appended[0] > goal)  # type: ignore[misc]
                restart(own_server)
            goal = appended[0] + 10
            wait_until(lambda: appended[0] > goal)
        with db.connect(own_url) as conn:
            log = conn.execute(
                "select transaction_id, position from milepost.messages "
                "order by transaction_id, position"
            ).fetchall()
            wait_until(lambda: len(handled(conn)) >= len(log))
            assert handled(conn) == log
            assert len(log) >= appended[0]


def handled(conn: Connection) -> list[tuple[int, int]]:
    return conn.execute("select transaction_id, position from effects order by number").fetchall()
