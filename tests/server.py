"""The server that a run of the tests works on, and those that single tests have to themselves."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from milepost.embedded import EmbeddedServer
from milepost.errors import EmbeddedError
from milepost.testing.databases import Databases, memory, open_directory

# A version that the wheel carries (16), or the directory of an installed PostgreSQL's programs.
CHOSEN = os.environ.get("MILEPOST_TEST_POSTGRES", "18")
__all__ = [
    "TestServer",
    "memory",
    "open_directory",
    "postgres",
    "postgres_in",
    "program_of_server",
]


class TestServer(Databases):
    __test__ = False  # a name that pytest would collect

    def url(self, database: str) -> str:
        """As pairs, to which tests add others: f"{url} user=somebody"."""
        return make_conninfo(self.base_url, dbname=database)


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
