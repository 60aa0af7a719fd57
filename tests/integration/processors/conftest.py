"""What the tests of processors share: a table of effects, and messages to handle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from milepost import Message, Milepost, Position, app
from milepost.db import Connection
from milepost.processors.definition import ProcessorOptions
from milepost.processors.segments import operations
from milepost.runtime import Timing
from milepost.sql import LogOrder
from tests.integration.processors.running import Effects

Put = Callable[..., list[Position]]
LONG_CLAIM_SECONDS = 600.0


@pytest.fixture
def order() -> LogOrder:
    """A processor compares positions and asks nothing else of the order. What is about positions
    (starting, filtering, storing a checkpoint) runs in both."""
    return "append"


@pytest.fixture
def effects(conn: Connection) -> Effects:
    conn.execute(
        "create table effects (number bigint generated always as identity, "
        "transaction_id bigint not null, position bigint not null)"
    )
    return Effects(conn)


@pytest.fixture
def put(mp: Milepost, conn: Connection) -> Put:
    """Appends messages, each with its number in its data, in one transaction."""

    def append(count: int = 1, *, keys: int = 5, topic: str = "default") -> list[Position]:
        return mp.append(
            conn,
            *(
                Message("Counted", {"number": n}, key=f"key-{n % keys}", topic=topic)
                for n in range(1, count + 1)
            ),
        )

    return append


@pytest.fixture
def timing(request: pytest.FixtureRequest) -> Timing:
    """Instances share segments sooner than after a second. With `quick_orders`, operators are heard
    far sooner than after two."""
    soon = Timing(beat_seconds=0.1)
    return replace(soon, orders_seconds=0.05) if "quick_orders" in request.fixturenames else soon


@pytest.fixture(autouse=True)
def _long_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a test does not say how long claims last. A busy machine may hold up the process for
    ten seconds, the default; then segments would be lost, of which no test means to speak."""
    options = partial(ProcessorOptions, claim_seconds=LONG_CLAIM_SECONDS)
    monkeypatch.setattr(app, "ProcessorOptions", options)


@pytest.fixture
def long_operator_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of the claims of an operator where no instance runs: a reset needs them to the
    end."""
    monkeypatch.setattr(operations, "CLAIM_SECONDS", LONG_CLAIM_SECONDS)


@pytest.fixture
def quick_orders() -> None:
    """Looked for by `timing`."""
