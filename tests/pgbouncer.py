"""A real PgBouncer in front of the server under test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class PgBouncer:
    """A PgBouncer, and through it the server."""

    place: Path
    server: TestServer
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def url(self, database: str) -> str:
        return make_conninfo(self.server.url(database), host=str(self.place), port=PORT)

    def start(self) -> None:
        self._process = run(program(), "--quiet", str(self.place / "pgbouncer.ini"))
        wait_until(self._answers)

    def kill(self) -> None:
        """Its clients and the server lose their connections, without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def configure(self, mode: str, sessions: int) -> None:
        file = self.place / "pgbouncer.ini"
        location = location_of(self.server.base_url)
        file.write_text(
            CONFIGURATION.format(
                server=location, mode=mode, sessions=sessions, port=PORT, directory=self.place
            )
        )
        file.chmod(0o644)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "PgBouncer has ended"
        try:
            psycopg.connect(self.url("postgres"), prepare_threshold=None).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def pgbouncer(server: TestServer, mode: str, sessions: int = SESSIONS) -> Iterator[PgBouncer]:
    with open_directory() as directory:
        place = directory / "pgbouncer"
        account_for_new_data().make_private_directory(place)
        made = PgBouncer(place, server)
        made.configure(mode, sessions)
        made.start()
        try:
            yield made
        finally:
            made.kill()


def run(*command: str) -> subprocess.Popen[bytes]:
    """As the account of the server: it alone may use its socket, and PgBouncer refuses root."""
    account = account_for_new_data()
    return subprocess.Popen(
        command,
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


def location_of(url: str) -> str:
    """Where the server is, in PgBouncer's words; the database is what the client says."""
    parts = conninfo_to_dict(url)
    names = ("host", "port", "user", "password")
    return " ".join(f"{name}={parts[name]}" for name in names if parts.get(name))
