"""The committer bound to a store and an id: it goes on from what is stored, not over others."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from threading import enumerate as enumerate_threads

import pytest

from milepost import CheckpointCommitter, MemoryCheckpointStore
from milepost.checkpoints import Answer, Checkpoint, CheckpointKey
from milepost.errors import CheckpointMoved, CommitterClosed, CommitterInterrupted
from milepost.records import Position
from tests.unit.checkpoints.recorder import StoreFailed, at
from tests.unit.checkpoints.test_committer_threads import Running
from tests.waiting import wait_until

KEY = CheckpointKey("billing")
PATIENCE_SECONDS = 30.0


@dataclass(slots=True)
class Unreliable(MemoryCheckpointStore):
    """Fails before or after it has stored; waits while its gate is shut."""

    fail_before: int = 0
    fail_after: int = 0
    stores: int = 0
    entered: Event = field(default_factory=Event)
    gate: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        MemoryCheckpointStore.__init__(self)
        self.gate.set()

    def store(
        self,
        key: CheckpointKey,
        expected: Position | None,
        new: Position,
        *,
        epoch: int = 0,
        owner: str | None = None,
    ) -> Answer:
        self.stores += 1
        self.entered.set()
        assert self.gate.wait(PATIENCE_SECONDS), "the gate was never opened"
        if self.fail_before:
            self.fail_before -= 1
            raise StoreFailed(str(new))
        answer = MemoryCheckpointStore.store(self, key, expected, new, epoch=epoch, owner=owner)
        if self.fail_after:
            self.fail_after -= 1
            raise StoreFailed(str(new))
        return answer


def strict(
    store: MemoryCheckpointStore, id_: str | CheckpointKey = "billing"
) -> CheckpointCommitter:
    return CheckpointCommitter(store, id_, batch_size=0, interval=0)


def lazy(store: MemoryCheckpointStore) -> CheckpointCommitter:
    """Stores when it is flushed or closed."""
    return CheckpointCommitter(store, "billing", batch_size=0, interval=3600.0)


def complete(committer: CheckpointCommitter, *numbers: int) -> None:
    """Admitted in order, then completed."""
    sequences = {n: committer.admit() for n in numbers}
    for n, sequence in sequences.items():
        assert sequence is not None
        committer.complete(at(n), sequence)


def stored(store: MemoryCheckpointStore, key: CheckpointKey = KEY) -> Position | None:
    found = store.load(key)
    return None if found is None else found.position


def test_the_first_one_finds_nothing_and_the_next_goes_on_from_what_is_stored() -> None:
    store = MemoryCheckpointStore()
    with CheckpointCommitter(store, "billing") as first:
        assert first.checkpoint is None
        complete(first, 1, 2, 3)
    assert first.checkpoint == stored(store) == at(3)
    with CheckpointCommitter(store, "billing") as second:
        assert second.checkpoint == at(3)
        complete(second, 4)
    assert stored(store) == at(4)


def test_an_id_may_be_a_key_and_ids_are_independent() -> None:
    store = MemoryCheckpointStore()
    other = CheckpointKey("billing", version=2)
    complete(strict(store), 1, 2)
    complete(strict(store, other), 1)
    assert (stored(store), stored(store, other)) == (at(2), at(1))


def test_what_is_below_the_checkpoint_is_not_stored_again() -> None:
    store = MemoryCheckpointStore()
    store.store(KEY, None, at(5))
    committer = strict(store)
    complete(committer, 3, 4)
    assert stored(store) == at(5)
    complete(committer, 6)
    assert stored(store) == at(6)


@pytest.mark.parametrize("reset_to", [None, at(1)])
def test_a_checkpoint_that_somebody_else_moved_is_left_alone_for_good(
    reset_to: Position | None,
) -> None:
    store = MemoryCheckpointStore()
    store.store(KEY, None, at(2))
    committer, other = strict(store), strict(store)
    if reset_to is None:
        complete(other, 7)
    else:
        store.reset(KEY, reset_to)
    before = store.load(KEY)
    for n in (8, 9):
        with pytest.raises(CheckpointMoved, match=r"'billing'.*stores nothing more") as caught:
            complete(committer, n)
        answer = "further" if reset_to is None else "older"
        assert (caught.value.expected, caught.value.answer) == (at(2), answer)
    with pytest.raises(CheckpointMoved):
        committer.close()
    assert store.load(KEY) == before


def test_a_reset_that_raised_the_epoch_fences() -> None:
    store = MemoryCheckpointStore()
    store._checkpoints[KEY] = Checkpoint(at(2), epoch=1)
    committer = strict(store)
    complete(committer, 3)
    store._checkpoints[KEY] = Checkpoint(at(3), epoch=2)
    with pytest.raises(CheckpointMoved, match="fenced"):
        complete(committer, 4)


def test_a_store_whose_answer_was_lost_is_not_taken_for_a_competitor() -> None:
    """It had stored, and then the connection broke: the next store finds its own position."""
    store = Unreliable(fail_after=1)
    committer = strict(store)
    with pytest.raises(StoreFailed):
        complete(committer, 1)
    assert stored(store) == at(1)
    complete(committer, 2)
    assert committer.checkpoint == stored(store) == at(2)


def test_after_a_lost_answer_the_position_of_another_is_a_competitors() -> None:
    store = Unreliable(fail_before=1)
    committer = strict(store)
    with pytest.raises(StoreFailed):
        complete(committer, 1)
    complete(strict(store), 1)
    with pytest.raises(CheckpointMoved):
        complete(committer, 2)


def test_a_store_that_failed_is_tried_again() -> None:
    store = Unreliable(fail_before=1)
    committer = strict(store)
    with pytest.raises(StoreFailed):
        complete(committer, 1)
    committer.flush()
    assert committer.checkpoint == stored(store) == at(1)


def test_a_flush_with_a_deadline_stores_in_time() -> None:
    store = Unreliable()
    committer = lazy(store)
    complete(committer, 1, 2)
    committer.flush(timeout=PATIENCE_SECONDS)
    assert stored(store) == at(2)
    complete(committer, 3)
    committer.close(timeout=PATIENCE_SECONDS, cancel=Event())
    assert stored(store) == at(3)


def test_what_a_store_raises_within_the_deadline_is_raised() -> None:
    committer = lazy(Unreliable(fail_before=2))
    complete(committer, 1)
    with pytest.raises(StoreFailed):
        committer.flush(timeout=PATIENCE_SECONDS)
    with pytest.raises(StoreFailed):
        committer.close(timeout=PATIENCE_SECONDS)
    committer.close(timeout=PATIENCE_SECONDS)
    assert committer.checkpoint == at(1)


@pytest.mark.parametrize("action", ["flush", "close"])
def test_a_deadline_does_not_wait_for_a_slow_store(action: str) -> None:
    store = Unreliable()
    committer = lazy(store)
    complete(committer, 1, 2)
    store.gate.clear()
    with pytest.raises(
        CommitterInterrupted, match=f"{action} .*0.05 s.*complete up to 0:2"
    ) as caught:
        getattr(committer, action)(timeout=0.05)
    assert (caught.value.stored, caught.value.completed) == (None, at(2))
    store.gate.set()
    # The store that was running has succeeded, or this one does.
    getattr(committer, action)(timeout=PATIENCE_SECONDS)
    assert committer.checkpoint == stored(store) == at(2)
    committer.close()


@pytest.mark.parametrize("action", ["flush", "close"])
def test_a_cancelled_wait_ends_while_the_store_is_running(action: str) -> None:
    store = Unreliable()
    committer = lazy(store)
    complete(committer, 1)
    store.gate.clear()
    cancel = Event()
    waiting = Running(lambda: getattr(committer, action)(cancel=cancel))
    assert store.entered.wait(PATIENCE_SECONDS)
    assert waiting.is_running
    cancel.set()
    waiting.join()
    assert isinstance(waiting.error, CommitterInterrupted)
    assert "cancelled" in str(waiting.error)
    store.gate.set()
    committer.close(timeout=PATIENCE_SECONDS)
    assert stored(store) == at(1)


def test_nothing_begins_after_a_cancel() -> None:
    store = Unreliable()
    committer = lazy(store)
    complete(committer, 1)
    cancelled = Event()
    cancelled.set()
    for action in (committer.flush, committer.close):
        with pytest.raises(CommitterInterrupted):
            action(cancel=cancelled)
    assert store.stores == 0
    with pytest.raises(CommitterClosed):
        committer.admit()


def test_a_flush_that_was_given_up_while_another_was_storing_stores_nothing_later() -> None:
    store = Unreliable()
    committer = lazy(store)
    complete(committer, 1)
    store.gate.clear()
    first = Running(committer.flush)
    assert store.entered.wait(PATIENCE_SECONDS)
    complete(committer, 2)
    with pytest.raises(CommitterInterrupted):
        committer.flush(timeout=0.05)
    store.gate.set()
    first.join()
    wait_until(lambda: not any("committer-flush" in each.name for each in enumerate_threads()))
    assert (store.stores, stored(store)) == (1, at(1))
    committer.close()
    assert stored(store) == at(2)


def test_an_error_after_the_deadline_reaches_the_next_caller() -> None:
    store = Unreliable()
    committer = lazy(store)
    complete(committer, 1)
    store.gate.clear()
    store.fail_before = 1
    with pytest.raises(CommitterInterrupted):
        committer.flush(timeout=0.05)
    store.gate.set()
    wait_until(lambda: raises(committer))
    committer.close()
    assert stored(store) == at(1)


def raises(committer: CheckpointCommitter) -> bool:
    try:
        committer.check()
    except StoreFailed:
        return True
    return False


def test_an_error_in_the_block_is_not_hidden_by_that_of_the_close() -> None:
    store = Unreliable(fail_before=1)

    def block() -> None:
        with lazy(store) as committer:
            complete(committer, 1)
            raise KeyError("the first cause")

    with pytest.raises(KeyError, match="the first cause"):
        block()


@pytest.mark.parametrize("wrong", ["", 5, None])
def test_an_id_is_a_name(wrong: object) -> None:
    with pytest.raises((TypeError, ValueError), match="id"):
        CheckpointCommitter(MemoryCheckpointStore(), wrong)  # type: ignore[arg-type]


def test_a_function_is_no_store() -> None:
    with pytest.raises(TypeError, match="PostgresCheckpointStore"):
        CheckpointCommitter(print, "billing")  # type: ignore[arg-type]
