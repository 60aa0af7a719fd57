"""Its answers are tested beside PostgreSQL's, in tests/integration/checkpoints/test_store.py."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from milepost.checkpoints import Answer, Checkpoint, CheckpointKey, MemoryCheckpointStore, memory
from milepost.records import Position

KEY = CheckpointKey("contended")


def test_of_many_threads_that_store_from_the_same_position_one_gets_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the look and the leap, others get their turn."""
    store, threads, steps, judge = MemoryCheckpointStore(), 8, 100, memory.judge

    def hesitating(
        current: Checkpoint | None, expected: Position | None, new: Position, epoch: int
    ) -> Answer:
        answer = judge(current, expected, new, epoch)
        time.sleep(0.0001)
        return answer

    def climb(_: int) -> int:
        """How often this thread was the one, on the way up."""
        stored = 0
        while (at := position(store)) < steps:
            answer = store.store(KEY, Position(0, at), Position(0, at + 1))
            stored += answer is Answer.STORED
        return stored

    monkeypatch.setattr(memory, "judge", hesitating)
    store.store(KEY, None, Position(0, 0))
    with ThreadPoolExecutor(threads) as pool:
        assert sum(pool.map(climb, range(threads))) == steps


def position(store: MemoryCheckpointStore) -> int:
    found = store.load(KEY)
    assert found is not None
    return found.position.position


def test_two_stores_know_nothing_of_each_other() -> None:
    first, second = MemoryCheckpointStore(), MemoryCheckpointStore()
    first.store(KEY, None, Position(0, 1))
    assert second.load(KEY) is None
