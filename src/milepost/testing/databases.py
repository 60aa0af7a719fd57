"""The databases of tests: made from a template and dropped, on one server.

The server is an embedded one of this run, in memory where the machine has room for it, or any
server that is named by a URL.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode
from uuid import uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import ObjectInUse
from psycopg.sql import Identifier

from milepost import sql
from milepost.embedded import EmbeddedServer
from milepost.errors import DatabaseBusy, NoTestDatabase
from milepost.runtime import holds_within

# What these names begin with is ours: only such a database is ever dropped.
PREFIX = "milepost_test_"
# Beyond the defaults: a crash of the machine may lose a test's database, and each test makes one.
SETTINGS = {
    "max_connections": "200",
    "fsync": "off",
    "autovacuum": "off",  # its ANALYZE holds the horizon of a log in transaction order for a moment
}
SHM = Path("/dev/shm")  # noqa: S108 - directories with random names of our own
MEMORY_BYTES = 4 * 2**30
BUSY_SECONDS = 30.0
LEAVING_SECONDS = 1.0


@dataclass
class Databases:
    """Made and dropped through the database that `base_url` names."""

    base_url: str = field(repr=False)
    _conn: psycopg.Connection | None = field(default=None, init=False, repr=False)

    def url(self, database: str) -> str:
        return as_url(make_conninfo(self.base_url, dbname=database))

    def create_database(self, prefix: str, template: str = "template0") -> str:
        """An empty one, or a copy. Its name."""
        name = f"milepost_{prefix}_{uuid4().hex[:8]}"
        self.copy_database(template, name)
        return name

    def copy_database(self, template: str, name: str) -> None:
        self._execute("testing_create_database", database=name, template=template)

    def make_template(self, name: str, schema: str) -> None:
        """Let it be copied: nobody is connected to it afterwards. Each copy is a log of its own,
        even if the template has messages."""
        with psycopg.connect(self.url(name), autocommit=True) as conn:
            conn.execute(sql.query("testing_forget_place", schema))
        self.end_sessions(name)

    def drop_database(self, name: str) -> None:
        """Its sessions are ended first: the server would look for them every 100 ms only, and most
        of them are about to end. One that comes back meanwhile is ended by the server."""
        self._end_sessions(name)
        self._is_left(name, LEAVING_SECONDS)
        self._execute("testing_drop_database", database=name)

    def end_sessions(self, name: str) -> None:
        """Nobody is connected to it afterwards: it can be copied."""
        self._end_sessions(name)
        self.wait_for_no_session(name)

    def wait_for_no_session(self, name: str) -> None:
        """The sessions of a process that was killed end a moment after it."""
        if not self._is_left(name, BUSY_SECONDS):
            raise DatabaseBusy(name, BUSY_SECONDS)

    def _end_sessions(self, name: str) -> None:
        self._admin().execute(sql.query("testing_end_sessions"), {"database": name})

    def _is_left(self, name: str, seconds: float) -> bool:
        """Whether all its sessions end within that time."""
        conn, query = self._admin(), sql.query("testing_sessions")
        return holds_within(
            lambda: conn.execute(query, {"database": name}).fetchone() == (0,), seconds
        )

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()

    def _execute(self, query: str, **names: str) -> None:
        """The server gives sessions that are ending five seconds to be gone, which a busy machine
        may not have: it is asked again."""
        text = sql.query(query)
        for key, name in names.items():
            text = text.replace(f"{{{key}}}".encode(), Identifier(name).as_bytes(None))
        conn = self._admin()
        if not holds_within(lambda: _is_done(conn, text), BUSY_SECONDS):
            raise DatabaseBusy(names.get("template", names["database"]), BUSY_SECONDS)

    def _admin(self) -> psycopg.Connection:
        """One session for all: a new one for each statement costs as much as the statement."""
        if self._conn is None or self._conn.closed:
            self._conn = psycopg.connect(self.base_url, autocommit=True)
        return self._conn


def _is_done(conn: psycopg.Connection, statement: bytes) -> bool:
    try:
        conn.execute(statement)
    except ObjectInUse:
        return False
    return True


def as_url(conninfo: str) -> str:
    """A URL that SQLAlchemy, Alembic, asyncpg and libpq read. It holds no per cent sign unless a
    name or a password needs one: the configuration of Alembic would replace it."""
    given = {name: str(value) for name, value in conninfo_to_dict(conninfo).items()}
    user, password = given.pop("user", ""), given.pop("password", "")
    name = quote(given.pop("dbname", ""), safe="")
    login = f"{quote(user, safe='')}{password and ':' + quote(password, safe='')}"
    host = given.get("host", "")
    if not host or "/" in host or "," in host or ":" in host:  # sockets, several hosts, IPv6
        at = ""
    else:
        port = given.pop("port", "")
        at = given.pop("host") + (port and f":{port}")
    query = urlencode(given, safe="/,:", quote_via=quote)
    return f"postgresql://{login}{login and '@'}{at}/{name}{query and '?' + query}"


def name_of_test_database(url: str) -> str:
    """Refuses any that milepost.testing has not made: it is going to be dropped."""
    name = str(conninfo_to_dict(url).get("dbname") or "")
    if not name.startswith(PREFIX):
        raise NoTestDatabase(name)
    return name


@contextmanager
def embedded_databases() -> Iterator[Databases]:
    """On a server that ends with the block."""
    with open_directory() as directory:
        server = EmbeddedServer(directory, settings=SETTINGS)
        try:
            made = Databases(server.start())
            yield made
            made.close()
        finally:
            server.stop()


def memory() -> Path | None:
    """A file system in memory with room for a run's servers, if there is one.

    On ext4, creating a file costs the more the more files were deleted in the last seconds: making
    and dropping servers and databases then takes most of the run. What a crash of a server loses is
    the same here: only a crash of the machine would lose more.
    """
    return SHM if SHM.is_dir() and shutil.disk_usage(SHM).free > MEMORY_BYTES else None


@contextmanager
def open_directory() -> Iterator[Path]:
    """A place for a server. Not below pytest's own directory, which other runs close meanwhile."""
    directory = Path(tempfile.mkdtemp(prefix="milepost-tests-", dir=memory()))
    # Ours to open: as root, PostgreSQL runs as another user, who must reach its data.
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree((directory / "postgres").resolve(), ignore_errors=True)
        shutil.rmtree(directory)
