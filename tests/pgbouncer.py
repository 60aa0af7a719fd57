"""A real PgBouncer in front of the server under test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from milepost.embedded.account import account_for_new_data
from tests.server import TestServer, open_directory
from tests.waiting import wait_until

PORT = 6432  # of a socket in a directory of its own, so it is always free
# Of the server's, for each database. Few, and each transaction gets another one of them, so that
# what relies on a session fails soon.
SESSIONS = 3
CONFIGURATION = """\
[databases]
* = {server}
[pgbouncer]
pool_mode = {mode}
default_pool_size = {sessions}
server_round_robin = 1
max_client_conn = 200
listen_addr =
listen_port = {port}
unix_socket_dir = {directory}
auth_type = any
"""


@contextmanager
def pgbouncer(server: TestServer, mode: str, sessions: int = SESSIONS) -> Iterator[TestServer]:
    """The server, as it is reached through PgBouncer."""
    with open_directory() as directory:
        place = directory / "postgres"  # where our own server has its data, PgBouncer has its own
        account = account_for_new_data()
        account.make_private_directory(place)
        process = start(server, mode, sessions, place)
        try:
            through = make_conninfo(server.base_url, host=str(place), port=PORT, hostaddr="")
            wait_until(lambda: answers(through, process))
            yield TestServer(through)
        finally:
            process.terminate()
            process.wait()


def start(server: TestServer, mode: str, sessions: int, place: Path) -> subprocess.Popen[bytes]:
    file = place / "pgbouncer.ini"
    file.write_text(
        CONFIGURATION.format(
            server=location(server.base_url),
            mode=mode,
            sessions=sessions,
            port=PORT,
            directory=place,
        )
    )
    file.chmod(0o644)
    account = account_for_new_data()
    with (place / "log").open("wb") as log:
        return subprocess.Popen(
            [program(), "--quiet", str(file)],
            stdout=log,
            stderr=log,
            cwd="/",
            user=None if account.is_us else account.uid,
            group=None if account.is_us else account.gid,
            extra_groups=None if account.is_us else [],
        )


def program() -> str:
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if found is None:
        pytest.skip("pgbouncer is neither on the PATH nor in /usr/sbin")
    return found


def location(url: str) -> str:
    """Where the server is, in PgBouncer's words; the databases are the clients' choice."""
    parts = conninfo_to_dict(url)
    names = ("host", "port", "user", "password")
    return " ".join(f"{name}={parts[name]}" for name in names if parts.get(name))


def answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "PgBouncer has ended"
    try:
        psycopg.connect(url, prepare_threshold=None).close()
    except psycopg.OperationalError:
        return False
    return True
