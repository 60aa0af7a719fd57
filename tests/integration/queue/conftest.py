"""What the tests of the queue share: a log of one order is enough, and further sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from milepost import db
from milepost.db import Connection
from milepost.sql import LogOrder

OpenSession = Callable[[], Connection]


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
