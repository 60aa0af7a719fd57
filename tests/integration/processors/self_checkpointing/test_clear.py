"""A store of files after a reset: nothing that was saved before hides the replay."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from milepost import (
    LATEST,
    Checkpointing,
    FileStore,
    Milepost,
    Position,
    RecordedMessage,
    Segment,
    StaleWrite,
    Trigger,
)
from milepost.db import Connection
from milepost.processors import Processor
from milepost.processors.self_checkpointing.reconcile import Report
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import running
from tests.waiting import wait_until


class Counting(Checkpointing):
    """Counts all messages, and saves the number under the key of the last one."""

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self.triggers: list[Trigger] = []
        self.counts: Counter[str] = Counter()
        self.last = Position.BEGINNING

    def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
        self.triggers.append(trigger)
        self.saved = self.store.load(trigger)
        self.counts = Counter(self.saved.entries)

    def __call__(self, messages: list[RecordedMessage]) -> None:
        self.counts.update(str(m.key) for m in messages if not self.saved.includes(m))
        self.last = messages[-1].position

    def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Report:
        self.store.save(self.triggers[-1], self.counts, self.last)
        return LATEST


def counted(mp: Milepost, store: FileStore) -> tuple[Counting, Processor]:
    handler = Counting(store)
    made = mp.processor("counts", delivery="at_least_once", poll_seconds=0.05)(handler)
    return handler, made


def test_a_late_save_from_before_the_reset_is_refused(
    mp: Milepost, url: str, put: Put, conn: Connection, tmp_path: Path
) -> None:
    store, positions = FileStore(tmp_path / "counts"), put(10)
    handler, made = counted(mp, store)
    made.run("caught_up")
    before = store.read().entries
    assert sum(before.values()) == 10
    (former,) = handler.triggers

    with conn.transaction():
        made.reset("beginning", conn)
    store.clear(conn, "counts")
    store.clear(conn, "counts")
    assert store.read().entries == {}
    with pytest.raises(StaleWrite):
        store.save(former, dict.fromkeys(before, 99), positions[-1])

    again, replayed = counted(Milepost(url), store)
    replayed.run("caught_up")
    assert again.saved.entries == {}
    assert store.read().entries == before


def test_while_an_instance_has_a_segment_it_is_refused(
    mp: Milepost, put: Put, conn: Connection, tmp_path: Path
) -> None:
    store = FileStore(tmp_path / "counts")
    put(3)
    handler, made = counted(mp, store)
    with running(made):
        wait_until(lambda: sum(handler.counts.values()) == 3)
        with pytest.raises(StaleWrite, match="pause the processor"):
            store.clear(conn, "counts")
    assert sum(store.read().entries.values()) == 3
