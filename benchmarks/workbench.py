"""Where figures are measured: a server, and a fresh database for each of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from psycopg import sql
from psycopg.conninfo import make_conninfo

from milepost import db, migrate
from milepost.embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.sql import LogOrder

# The baseline of every append and put: the same columns, indexes, constraints and defaults, no
# trigger.
_BARE = b"""
create schema bare;
create table bare.messages (like milepost.messages including all);
alter table bare.messages alter transaction_id set default 0;
create table bare.jobs (like milepost.jobs including all);
"""


@dataclass(frozen=True, slots=True)
class Workbench:
    url: str
    directory: Path  # for scripts; removed at the end
    is_quick: bool

    def choose(self, full: int, quick: int) -> int:
        """A size: of a figure to be believed, or of one that shows that it runs."""
        return quick if self.is_quick else full

    @contextmanager
    def database(self, order: LogOrder = "append") -> Iterator[str]:
        """The URL of a database of its own, with Milepost's schema and its tables' bare copies."""
        with self.empty_database() as url:
            with db.connect(url) as conn:
                migrate.migrate(conn, order=order)
                conn.execute(_BARE)
            yield url

    @contextmanager
    def empty_database(self) -> Iterator[str]:
        name = sql.Identifier(f"milepost_bench_{uuid4().hex[:8]}")
        self._execute(sql.SQL("create database {} template template0").format(name))
        try:
            yield make_conninfo(self.url, dbname=name.as_string(None).strip('"'))
        finally:
            self._execute(sql.SQL("drop database {} with (force)").format(name))

    def server_version(self) -> str:
        with db.connect(self.url) as conn:
            return conn.info.parameter_status("server_version") or "unknown"

    def _execute(self, statement: sql.Composed) -> None:
        with db.connect(self.url) as conn:
            conn.execute(statement)


@contextmanager
def workbench(*, is_quick: bool) -> Iterator[Workbench]:
    """On MILEPOST_BENCH_URL, or on an embedded server that ends with the run."""
    directory = Path(tempfile.mkdtemp(prefix="milepost-bench-"))
    # Ours to open: as root, PostgreSQL runs as another user, who must reach its data.
    directory.chmod(0o755)
    try:
        with _server(directory) as url:
            yield Workbench(url, directory, is_quick)
    finally:
        shutil.rmtree(directory)


@contextmanager
def _server(directory: Path) -> Iterator[str]:
    if url := os.environ.get("MILEPOST_BENCH_URL"):
        yield url
        return
    # With its own settings, which are durable: what is measured is what its users get.
    embedded = EmbeddedServer(directory)
    try:
        yield embedded.start()
    finally:
        embedded.stop()
