"""Where the demo runs: a schema of its own, made anew, in a database that is there or embedded."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost import db, sql
from milepost.app import Milepost
from milepost.cli.database import open_log, say_embedded
from milepost.db import environment_url
from milepost.embedded import EmbeddedServer
from milepost.errors import MilepostError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from milepost.sql import LogOrder

SCHEMA = "milepost_demo"


class DemoIsRunning(MilepostError):
    """Two demos in one database would drop each other's schema."""

    def __init__(self) -> None:
        super().__init__("another demo is running in this database: let it end first.")


@dataclass(frozen=True, slots=True)
class Place:
    """The log of the demo, and the URL for processes that work on it too. It is theirs
    through the environment, never in an argument, which every user of the machine can see."""

    mp: Milepost
    url: str = field(repr=False)

    def environment(self) -> dict[str, str]:
        return {**os.environ, **({"MILEPOST_URL": self.url} if self.url else {})}


@contextmanager
def demo_place(url: str | None, directory: Path, order: LogOrder) -> Iterator[Place]:
    with _database(url, directory) as found, db.connect(found) as conn:
        (is_ours,) = conn.execute(sql.query("demo_lock", SCHEMA)).fetchone() or (False,)
        if not is_ours:
            raise DemoIsRunning
        conn.execute(sql.query("demo_drop", SCHEMA))
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
    if was_running:
        yield server.start()
        return
    try:
        yield server.start()
    finally:
        server.stop()
