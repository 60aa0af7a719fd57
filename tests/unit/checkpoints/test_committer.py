"""One thread, no interval: when the committer stores, and what."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from milepost.checkpoints import Committer, Gap
from milepost.errors import CommitterClosed
from tests.unit.checkpoints.recorder import Clock, Recorder, StoreFailed, at


def committer_of(store: Recorder, batch_size: int = 0, admitted: int = 10) -> Committer:
    committer = Committer(store, batch_size=batch_size, interval=0)
    for _ in range(admitted):
        committer.admit()
    return committer


def complete(committer: Committer, sequences: Iterable[int]) -> None:
    for sequence in sequences:
        committer.complete(at(sequence), sequence)


def test_with_both_0_every_advance_is_stored() -> None:
    store = Recorder()
    complete(committer_of(store), (1, 2, 3))
    assert store.stored == [at(1), at(2), at(3)]


def test_with_both_0_nothing_is_stored_while_a_gap_is_open() -> None:
    store = Recorder()
    committer = committer_of(store)
    complete(committer, (2, 3))
    assert store.stored == []
    complete(committer, (1,))
    assert store.stored == [at(3)]


def test_a_batch_size_stores_after_that_many_completions() -> None:
    store = Recorder()
    committer = committer_of(store, batch_size=3)
    complete(committer, (1, 2))
    assert store.stored == []
    complete(committer, (3, 4, 5))
    assert store.stored == [at(3)]
    complete(committer, (6,))
    assert store.stored == [at(3), at(6)]


def test_the_batch_size_counts_completed_messages_and_not_advances() -> None:
    """Nine complete behind one gap are one advance and ten messages."""
    store = Recorder()
    committer = committer_of(store, batch_size=10)
    complete(committer, range(2, 11))
    assert store.stored == []
    complete(committer, (1,))
    assert store.stored == [at(10)]


def test_a_full_batch_above_a_gap_is_stored_as_soon_as_there_is_an_advance() -> None:
    store = Recorder()
    committer = committer_of(store, batch_size=3)
    complete(committer, (3, 4, 5))
    complete(committer, (1,))
    assert store.stored == [at(1)]


def test_what_was_counted_above_a_gap_does_not_wait_for_another_batch_when_it_closes() -> None:
    store = Recorder()
    committer = committer_of(store, batch_size=3)
    complete(committer, (3, 4, 1))
    complete(committer, (2,))
    assert store.stored == [at(1), at(4)]


def test_a_repeated_completion_counts_once_and_stores_nothing_again() -> None:
    store = Recorder()
    committer = committer_of(store, batch_size=3)
    complete(committer, (1, 1, 1, 3, 3, 3))
    assert store.stored == []
    complete(committer, (2,))
    assert store.stored == [at(3)]
    complete(committer, (1, 2, 3))
    assert store.stored == [at(3)]


def test_flush_stores_what_is_contiguous_once() -> None:
    store = Recorder()
    committer = committer_of(store, batch_size=100)
    committer.flush()
    complete(committer, (1, 2, 4))
    committer.flush()
    committer.flush()
    assert store.stored == [at(2)]


def test_a_flush_starts_the_count_anew() -> None:
    store = Recorder()
    committer = committer_of(store, batch_size=3)
    complete(committer, (1, 2))
    committer.flush()
    complete(committer, (3, 4))
    assert store.stored == [at(2)]
    complete(committer, (5,))
    assert store.stored == [at(2), at(5)]


def test_a_sequence_that_was_never_admitted_is_refused_and_nothing_is_lost_by_it() -> None:
    store = Recorder()
    committer = committer_of(store, admitted=2)
    with pytest.raises(ValueError, match="sequence 3 was never admitted"):
        complete(committer, (3,))
    complete(committer, (1, 2))
    assert store.stored == [at(1), at(2)]


def test_a_store_that_fails_in_the_foreground_is_raised_and_made_up_for_by_the_next() -> None:
    store = Recorder(failures=1)
    committer = committer_of(store)
    with pytest.raises(StoreFailed):
        complete(committer, (1,))
    assert store.stored == []
    complete(committer, (2,))
    assert store.stored == [at(2)]


def test_a_failed_store_stays_due_though_the_next_batch_is_not_full() -> None:
    store = Recorder(failures=1)
    committer = committer_of(store, batch_size=3)
    with pytest.raises(StoreFailed):
        complete(committer, (1, 2, 3))
    complete(committer, (4,))
    assert store.stored == [at(4)]


def test_a_flush_that_fails_is_raised_and_the_next_one_stores() -> None:
    store = Recorder(failures=2)
    committer = committer_of(store, batch_size=100)
    complete(committer, (1, 2))
    for _ in range(2):
        with pytest.raises(StoreFailed):
            committer.flush()
    committer.flush()
    assert store.stored == [at(2)]
    committer.check()


def test_close_stores_what_is_contiguous() -> None:
    store = Recorder()
    committer = committer_of(store, batch_size=100)
    complete(committer, (1, 2, 4))
    committer.close()
    committer.close()
    assert store.stored == [at(2)]


def test_a_close_that_fails_is_raised_and_closing_again_stores() -> None:
    store = Recorder(failures=1)
    committer = committer_of(store, batch_size=100)
    complete(committer, (1,))
    with pytest.raises(StoreFailed):
        committer.close()
    committer.close()
    assert store.stored == [at(1)]


def test_leaving_the_context_closes_also_on_an_error() -> None:
    store = Recorder()
    with pytest.raises(ValueError, match="never admitted"), committer_of(store, 100) as committer:
        complete(committer, (1, 11))
    assert store.stored == [at(1)]


@pytest.mark.parametrize("batch_size", [0, 1, 100])
def test_a_completion_after_close_is_harmless_and_stores_nothing(batch_size: int) -> None:
    store = Recorder()
    committer = committer_of(store, batch_size)
    complete(committer, (1,))
    committer.close()
    complete(committer, (2, 3))
    assert store.stored == [at(1)]


def test_abandon_stores_nothing_not_even_by_closing_later() -> None:
    store = Recorder()
    with committer_of(store, batch_size=100) as committer:
        complete(committer, (1, 2))
        committer.abandon()
    assert store.attempts == 0


@pytest.mark.parametrize("batch_size", [0, 1, 100])
def test_a_completion_after_abandon_is_harmless_and_stores_nothing(batch_size: int) -> None:
    store = Recorder()
    committer = committer_of(store, batch_size)
    committer.abandon()
    complete(committer, (1, 2, 3))
    assert store.attempts == 0


def test_whoever_was_about_to_store_when_it_was_closed_stores_nothing() -> None:
    """A thread that waited while another was storing: it was past every check but the last."""
    store = Recorder()
    committer = committer_of(store, batch_size=100)
    committer.close()
    complete(committer, (1,))
    committer._flush()
    assert store.attempts == 0


def test_a_closed_committer_admits_and_flushes_no_more() -> None:
    committer = committer_of(Recorder())
    committer.close()
    with pytest.raises(CommitterClosed):
        committer.admit()
    with pytest.raises(CommitterClosed):
        committer.flush()


def test_there_is_no_room_at_max_pending_until_the_gap_closes() -> None:
    committer = Committer(Recorder(), batch_size=0, interval=0, max_pending=3)
    assert [committer.admit(timeout=0) for _ in range(4)] == [1, 2, 3, None]
    complete(committer, (2, 3))
    assert (committer.pending, committer.admit(timeout=0.001)) == (3, None)
    complete(committer, (1,))
    assert (committer.pending, committer.admit(timeout=0)) == (0, 4)


def test_a_failing_store_takes_no_room() -> None:
    committer = Committer(Recorder(failures=1), 0, 0, max_pending=1)
    committer.admit()
    with pytest.raises(StoreFailed):
        complete(committer, (1,))
    assert committer.admit(timeout=0) == 2


def test_the_oldest_gap_and_its_age_are_visible() -> None:
    clock = Clock()
    committer = Committer(Recorder(), batch_size=0, interval=0, clock=clock)
    assert committer.oldest_gap is None
    for _ in range(3):
        committer.admit()
        clock.now += 10
    assert committer.oldest_gap == Gap(1, 30)
    complete(committer, (2,))
    clock.now += 1
    assert committer.oldest_gap == Gap(1, 31)
    complete(committer, (1, 1))
    assert committer.oldest_gap == Gap(3, 11)
    complete(committer, (3,))
    assert committer.oldest_gap is None


def test_what_is_complete_is_not_remembered() -> None:
    committer = committer_of(Recorder(), admitted=100)
    complete(committer, range(100, 0, -1))
    complete(committer, range(1, 101))
    assert not committer._admitted_at
    assert not committer._frontier._waiting


@pytest.mark.parametrize(
    ("batch_size", "interval", "max_pending", "named"),
    [
        (-1, 5.0, 1, "batch_size and interval"),
        (100, -0.1, 1, "batch_size and interval"),
        (100, 5.0, 0, "max_pending is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    batch_size: int, interval: float, max_pending: int, named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        Committer(Recorder(), batch_size, interval, max_pending)
