"""What the tests of the queue share: a log of one order is enough, and further sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from milepost import db
from milepost.db import Connection
from milepost.queue.worker import heartbeats
from milepost.sql import LogOrder

OpenSession = Callable[[], Connection]
LONG_LOCK = 3600.0  # which nobody loses, however long the machine holds a worker up


@pytest.fixture
def quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times a second where the lock is LONG_LOCK: so a test sees the lock extended soon, and
    nobody loses it if the machine holds the heartbeats up."""
    monkeypatch.setattr(heartbeats, "BEATS_PER_LOCK", 4 * LONG_LOCK)


@pytest.fixture
def order() -> LogOrder:
    """The queue does not know of the log's order."""
    return "append"


@pytest.fixture
def session(url: str) -> Iterator[OpenSession]:
    """Opens a session; an open transaction ends with the test, unless the test ended it."""
    with ExitStack() as opened:

        def open_session() -> Connection:
            conn = db.connect(url)
            opened.callback(conn.close)
            return conn

        yield open_session
