"""Where the demo runs: its own new schema, in an existing or in the embedded database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from milepost import db
from milepost.app import Milepost
from milepost.cli.database import open_log, say_embedded
from milepost.db import environment_url
from milepost.embedded import EmbeddedServer
from milepost.errors import WithFacts
from milepost.sql import LogOrder

SCHEMA = "milepost_demo"


class DemoIsRunning(WithFacts):
    """Two demos in one database would drop each other's schema."""

    template = "another demo is running in this database: wait until it has ended."


@dataclass(frozen=True, slots=True)
class Place:
    """The log of the demo, and its URL for other processes."""

    mp: Milepost
    url: str = field(repr=False)

    def start(
        self, module: str, *arguments: str, directory: Path | None = None, **streams: Any
    ) -> subprocess.Popen[str]:
        """Start a program of the demo. It gets the URL in the environment, never as an argument,
        which every user of the machine can see. `directory` is for Spark's checkpoints."""
        given = {"MILEPOST_URL": self.url, "MILEPOST_SPARK_DIR": str(directory or "")}
        return subprocess.Popen(
            [sys.executable, "-m", f"milepost_demo.{module}", self.mp.schema, *arguments],
            env=os.environ | {name: value for name, value in given.items() if value},
            text=True,
            **streams,
        )


@contextmanager
def demo_place(url: str | None, directory: Path, order: LogOrder) -> Iterator[Place]:
    with _database(url, directory) as found, db.connect(found) as conn:
        (is_ours,) = db.fetch_one(conn, SCHEMA, "demo_lock")
        if not is_ours:
            raise DemoIsRunning
        db.run(conn, SCHEMA, "demo_drop")
        mp = open_log(found, SCHEMA)
        mp.migrate(order)
        yield Place(mp, found)


@contextmanager
def _database(url: str | None, directory: Path) -> Iterator[str]:
    """The URL; a server that was not running before is stopped at the end."""
    given = environment_url(os.environ) if url is None else url
    if given is not None:
        yield given
        return
    say_embedded(directory)
    server = EmbeddedServer(directory)
    was_running = server.is_running()
    try:
        yield server.start()
    finally:
        if not was_running:
            server.stop()
