"""What the tests of self-checkpointing handlers share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from milepost import Milepost
from milepost.db import Connection
from milepost.records import Position
from milepost.runtime import Timing
from milepost.sql import LogOrder

Stored = Callable[..., Position]


@pytest.fixture
def order() -> LogOrder:
    """Nothing here looks at which order it is, so one is enough; test_deferred.py runs in both."""
    return "append"


@pytest.fixture
def timing() -> Timing:
    """A segment that was given back is claimed again soon."""
    return Timing(beat_seconds=0.05)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened at the end, so that no thread is left hanging."""
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.fixture
def stored(mp: Milepost, conn: Connection) -> Stored:
    """The checkpoint of a segment, as the database has it."""

    def load(segment: int = 0, processor: str = "balances") -> Position:
        row = conn.execute(
            'select transaction_id, "position" from milepost.checkpoints '
            "where processor = %s and segment = %s",
            [processor, segment],
        ).fetchone()
        return Position.BEGINNING if row is None else Position(*row)

    return load
