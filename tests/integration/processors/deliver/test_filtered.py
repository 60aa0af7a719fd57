"""What a filter takes out moves the checkpoint too, and an idle processor writes nothing."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from milepost import Milepost, Position, db
from milepost.db import Connection
from milepost.log import Batch
from milepost.processors import Processor
from milepost.processors.session import ProcessorSession
from milepost.runtime import Timing
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import running
from tests.waiting import wait_until

pytestmark = pytest.mark.parametrize("order", ["append", "transaction"])

POLLS = 30


@pytest.fixture
def polls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often a processor looks."""
    counted: Counter[str] = Counter()

    def counting(self: ProcessorSession, after: Position, batch_size: int) -> Batch:
        counted["read"] += 1
        return read(self, after, batch_size)

    read = ProcessorSession.read
    monkeypatch.setattr(ProcessorSession, "read", counting)
    return counted


def stored(conn: Connection) -> object:
    """Changes whenever the checkpoint's row is written, whatever is written."""
    return conn.execute("select xmin, ctid, updated_at from milepost.checkpoints").fetchone()


def picky(mp: Milepost, concurrency: int = 1) -> Processor:
    """With a handler that does nothing, in either kind of delivery."""
    if concurrency == 1:
        return mp.processor("picky", topics=["wanted"], poll_seconds=0.01)(lambda *_: None)
    return mp.processor(
        "picky", topics=["wanted"], poll_seconds=0.01, concurrency=concurrency,
        handle="message", delivery="at_least_once", checkpoint_every=1,
    )(lambda *_: None)  # fmt: skip


def has_passed(processor: Processor, last: Position) -> bool:
    position = processor.position()
    return position is not None and position >= last


@pytest.mark.parametrize("concurrency", [1, 2])
def test_an_idle_processor_stores_nothing_however_often_it_polls(
    url: str, conn: Connection, put: Put, polls: Counter[str], concurrency: int
) -> None:
    """Not even while other transactions of the cluster move the horizon."""
    processor = picky(Milepost(url, timing=Timing(advance_seconds=0.0)), concurrency)
    put(1, topic="wanted")
    (last,) = put(1, topic="unwanted")
    with running(processor), db.connect(url) as other:
        wait_until(lambda: has_passed(processor, last))
        before = stored(conn)
        goal = polls["read"] + POLLS
        while polls["read"] < goal:
            other.execute("select pg_current_xact_id()")
        assert stored(conn) == before


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_checkpoint_passes_what_was_filtered_out_while_it_runs(
    mp: Milepost, put: Put, concurrency: int
) -> None:
    processor = picky(mp, concurrency)
    with running(processor):
        put(3, topic="wanted")
        for last in (put(3, topic="unwanted")[-1] for _ in range(2)):
            wait_until(partial(has_passed, processor, last))


def test_a_stream_of_what_is_filtered_out_is_not_a_store_each(
    url: str, conn: Connection, put: Put, polls: Counter[str]
) -> None:
    """A store is due again in an hour: on a slow machine any other time may pass between two
    looks."""
    processor = picky(Milepost(url, timing=Timing(advance_seconds=3600.0)))
    versions = set()
    with running(processor):
        wait_until(lambda: polls["read"] > 0)
        goal = polls["read"] + POLLS
        while polls["read"] < goal:
            put(1, topic="unwanted")
            versions.add(stored(conn))
    assert len(versions) <= 2, "one store, before the next is due"
