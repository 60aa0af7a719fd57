"""Crashing a server in the middle of a merge: a lock makes the merge wait while that happens."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from milepost.embedded import EmbeddedServer
from milepost.embedded.cluster import find
from tests.waiting import wait_until

WAITING = (
    "select 1 from pg_stat_activity where wait_event_type = 'Lock' and application_name ~ %s"
    " and backend_xid is not null"
)


def crash(server: EmbeddedServer) -> None:
    """As `pg_ctl stop -m immediate`: what has not committed is gone, and so is what is unlogged."""
    data = find(server.directory)
    assert data is not None
    pid_file = data / "postmaster.pid"
    os.kill(int(pid_file.read_text().splitlines()[0]), signal.SIGQUIT)
    wait_until(lambda: not pid_file.exists())


@contextmanager
def locked(url: str, table: str) -> Iterator[None]:
    """Nobody else writes to the table in this block, or until the server dies."""
    conn = psycopg.connect(url)
    try:
        name = sql.Identifier(*table.split("."))
        conn.execute(sql.SQL("lock table {} in exclusive mode").format(name))
        yield
    finally:
        conn.close()


def wait_for_merge(url: str, application: str) -> None:
    wait_until(lambda: is_merging(url, application))


def is_merging(url: str, application: str) -> bool:
    """Whether somebody waits for the table who has moved the checkpoint in the same transaction."""
    with psycopg.connect(url, autocommit=True) as conn:
        return conn.execute(WAITING, [application]).fetchone() is not None
