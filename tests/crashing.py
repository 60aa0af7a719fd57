"""A server that is killed as if its machine had lost power, before it wrote what it need not have
written yet."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from milepost import Milepost, db
from milepost.db import Connection, one
from milepost.embedded import EmbeddedServer
from milepost.sql import LogOrder
from tests.server import postgres
from tests.waiting import wait_until

# It writes nothing by itself.
SETTINGS = {"wal_writer_delay": "10s", "autovacuum": "off"}


@contextmanager
def lazy_server() -> Iterator[EmbeddedServer]:
    with postgres(SETTINGS) as server:
        server.start()
        yield server


def migrated_database(server: EmbeddedServer, order: LogOrder = "append") -> str:
    """The URL of a new one."""
    name = f"crash_{uuid4().hex[:8]}"
    with db.connect(server.start()) as conn:
        conn.execute(f"create database {name}".encode())
    url = server.url(name)
    assert url is not None
    Milepost(url).migrate(order)
    return url


def crash_and_start(server: EmbeddedServer, *held: int) -> None:
    """As when its machine loses power: what was not written yet is lost. Who is held cannot end by
    itself when the server is gone."""
    kill(server, *held)
    server.start()


def kill(server: EmbeddedServer, *held: int) -> None:
    pid = int((server.directory / "postgres" / "postmaster.pid").read_text().split("\n")[0])
    for process in (pid, *held):
        os.kill(process, signal.SIGKILL)


def hold_writer(conn: Connection) -> int:
    """Nobody else writes what was committed without waiting for the disk; the process that is held.
    At its rest, or it might hold a lock that others wait for."""
    asked = "select pid, wait_event from pg_stat_activity where backend_type = 'walwriter'"

    def is_held() -> bool:
        pid, _ = one(conn.execute(asked).fetchone())
        os.kill(pid, signal.SIGSTOP)
        if one(conn.execute(asked).fetchone()) == (pid, "WalWriterMain"):
            return True
        os.kill(pid, signal.SIGCONT)
        return False

    wait_until(is_held)
    return int(one(conn.execute(asked).fetchone())[0])
