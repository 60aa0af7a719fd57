"""The server that a run of the tests works on, and those that single tests have to themselves."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.errors import ObjectInUse

from milepost.embedded import EmbeddedServer
from milepost.errors import EmbeddedError
from tests.waiting import wait_until

# A version that the wheel carries (16), or the directory of an installed PostgreSQL's programs.
CHOSEN = os.environ.get("MILEPOST_TEST_POSTGRES", "18")
SHM = Path("/dev/shm")  # noqa: S108 - directories with random names of our own
MEMORY_BYTES = 4 * 2**30


@dataclass
class TestServer:
    """Databases are made and dropped through the database that `base_url` names."""

    __test__ = False  # a name that pytest would collect

    base_url: str
    _conn: psycopg.Connection | None = field(default=None, init=False, repr=False)

    def url(self, database: str) -> str:
        return make_conninfo(self.base_url, dbname=database)

    def create_database(self, prefix: str, template: str = "template0") -> str:
        name = f"milepost_{prefix}_{uuid4().hex[:8]}"
        # In memory, copying files takes half the time of writing all pages to the WAL.
        statement = sql.SQL(
            "create database {} template {} encoding 'UTF8' strategy file_copy"
        ).format(sql.Identifier(name), sql.Identifier(template))
        self.execute(statement)
        return name

    def drop_database(self, name: str) -> None:
        self.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    def execute(self, statement: sql.Composed) -> None:
        """The server gives sessions that are ending five seconds to be gone, which a busy machine
        may not have: it is asked again."""
        conn = self._admin()
        wait_until(lambda: _is_done(conn, statement))

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()

    def _admin(self) -> psycopg.Connection:
        """One session for all: a new one for each statement costs as much as the statement."""
        if self._conn is None or self._conn.closed:
            self._conn = psycopg.connect(self.base_url, autocommit=True)
        return self._conn


def _is_done(conn: psycopg.Connection, statement: sql.Composed) -> bool:
    try:
        conn.execute(statement)
    except ObjectInUse:
        return False
    return True


def postgres_in(directory: Path, settings: Mapping[str, str] | None = None) -> EmbeddedServer:
    """A server of the version that this run is to test."""
    if CHOSEN.isdigit():
        return EmbeddedServer(directory, int(CHOSEN), settings or {})
    programs = Path(CHOSEN)
    said = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True)
    version = re.search(r"PostgreSQL\) (\d+)", said.stdout)
    if version is None:
        raise ValueError(f"MILEPOST_TEST_POSTGRES: no PostgreSQL answers in {programs}: {said}")
    return EmbeddedServer(directory, int(version[1]), settings or {}, programs)


def program_of_server(name: str) -> Path:
    """One of that version's programs; a test that needs one that is not there is skipped."""
    try:
        return postgres_in(Path()).bin(name)
    except EmbeddedError as exc:
        pytest.skip(str(exc))


@contextmanager
def postgres(settings: Mapping[str, str] | None = None) -> Iterator[EmbeddedServer]:
    """The same in a directory of its own, which ends with it; to be started."""
    with open_directory() as directory:
        server = postgres_in(directory, settings)
        try:
            yield server
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
