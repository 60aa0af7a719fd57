"""How many connections something opens: what docs/production.md says, and what the server sees."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from milepost.db import one

DOCUMENT = Path(__file__).parents[1] / "docs" / "production.md"
ROW = re.compile(r"^\| ([^|]+?) \| `([^`|]+)` \|", re.MULTILINE)
TEST = "test"  # the name of connections that are the test's own, and not counted
LOOK_SECONDS = 0.01
COUNT = """
select count(*) from pg_stat_activity
where datname = current_database() and backend_type = 'client backend'
  and application_name <> %s and application_name like %s
"""


def documented() -> dict[str, str]:
    """What runs, and how many connections it has: a sum of products."""
    rows: dict[str, str] = dict(ROW.findall(DOCUMENT.read_text()))
    return rows


def budget(what: str, **numbers: int) -> int:
    """What the document says of it, for so many threads, handlers or cores."""
    terms = [term.split("\N{MULTIPLICATION SIGN}") for term in documented()[what].split("+")]
    return sum(math.prod(_factor(f.strip(), numbers) for f in factors) for factors in terms)


def _factor(text: str, numbers: dict[str, int]) -> int:
    return int(text) if text.isdigit() else numbers[text]


@dataclass(slots=True)
class Watch:
    """Looks again and again; `most` is the highest number seen."""

    url: str
    like: str = "%"  # whose, by application_name
    most: int = field(default=0, init=False)
    _over: threading.Event = field(default_factory=threading.Event, init=False)

    def look(self) -> None:
        with psycopg.connect(self.url, autocommit=True, application_name=TEST) as conn:
            while not self._over.wait(LOOK_SECONDS):
                row = conn.execute(COUNT, [TEST, self.like]).fetchone()
                self.most = max(self.most, one(row)[0])

    def end(self) -> None:
        self._over.set()


@contextmanager
def watching(url: str, like: str = "%") -> Iterator[Watch]:
    watch = Watch(url, like)
    thread = threading.Thread(target=watch.look, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.end()
        thread.join()


@dataclass(slots=True)
class Gate:
    """Holds handlers until so many of them run at the same time."""

    size: int
    _barrier: threading.Barrier = field(init=False)
    is_passed: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._barrier = threading.Barrier(self.size)

    def enter(self) -> None:
        if not self.is_passed:
            self._barrier.wait(60)
            self.is_passed = True
