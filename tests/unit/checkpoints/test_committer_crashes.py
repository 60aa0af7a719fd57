"""Crash and start again: every message is handled, and only what was not stored is repeated.

The world: messages 1 to n in a log, a processor that handles them concurrently, a committer
without a timer, a checkpoint store that outlives both. A crash loses everything but the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from milepost.checkpoints import Answer, CheckpointKey, Committer, MemoryCheckpointStore
from milepost.records import Position

KEY = CheckpointKey("crashing")


def at(message: int) -> Position:
    """Rising, though the second part alone is not."""
    return Position(message // 4, message % 4)


class Crash(Exception):
    """The process is gone."""


@dataclass(slots=True)
class World:
    messages: int
    batch_size: int
    max_pending: int = 100
    store: MemoryCheckpointStore = field(default_factory=MemoryCheckpointStore)
    handled: list[int] = field(default_factory=list)

    @property
    def stored(self) -> int:
        """The last message that the checkpoint covers."""
        found = self.store.load(KEY)
        return 0 if found is None else found.position.transaction_id * 4 + found.position.position

    def run(self, choice: Iterator[int], crash_after: int | None = None) -> None:
        """One life: handle what is above the checkpoint in the order that `choice` gives."""
        committer = Committer(self._store_to(), self.batch_size, 0, self.max_pending)
        unread, in_hand = list(range(self.stored + 1, self.messages + 1)), dict[int, int]()
        events = 0
        while unread or in_hand:
            while unread and (sequence := committer.admit(timeout=0)) is not None:
                in_hand[unread.pop(0)] = sequence
            if events == crash_after:
                raise Crash
            events += 1
            self._handle_one(committer, in_hand, next(choice))
        committer.close()

    def _handle_one(self, committer: Committer, in_hand: dict[int, int], choice: int) -> None:
        assert 0 < len(in_hand) <= self.max_pending
        message = sorted(in_hand)[choice % len(in_hand)]
        self.handled.append(message)
        committer.complete(at(message), in_hand.pop(message))
        self.check(committer)

    def check(self, committer: Committer) -> None:
        assert set(range(1, self.stored + 1)) <= set(self.handled), "a message is skipped"
        contiguous = committer._frontier.sequence - committer._stored_sequence
        assert contiguous < max(self.batch_size, 1), "a store is overdue"

    def _store_to(self) -> _Fenced:
        return _Fenced(self.store, None if not self.stored else at(self.stored))


@dataclass(slots=True)
class _Fenced:
    """Compare-and-set, so that a store out of order would be found out."""

    store: MemoryCheckpointStore
    expected: Position | None

    def __call__(self, position: Position) -> None:
        assert self.store.store(KEY, self.expected, position) is Answer.STORED
        self.expected = position


def crash(world: World, choice: Iterator[int], after: int) -> None:
    """A life that ends after so many events, unless everything is handled before."""
    before = len(world.handled)
    try:
        world.run(choice, after)
    except Crash:
        assert len(world.handled) - before == after


def test_every_order_of_completions_and_every_crash_point_of_five_messages() -> None:
    for batch_size in (0, 1, 2, 3, 10):
        for order in permutations(range(5)):
            for crash_after in range(6):
                live_twice(World(5, batch_size), order, crash_after)


def live_twice(world: World, order: tuple[int, ...], crash_after: int) -> None:
    left = list(range(5))
    ranks = []
    for message in order:  # which of those still in hand it is
        ranks.append(left.index(message))
        left.remove(message)
    crash(world, iter(ranks), crash_after)
    stored, before = world.stored, len(world.handled)
    world.run(iter([0] * 5))
    assert set(world.handled) == {1, 2, 3, 4, 5}
    assert world.handled[before:] == list(range(stored + 1, 6))
    assert world.stored == 5


@given(
    messages=st.integers(1, 60),
    batch_size=st.integers(0, 12),
    max_pending=st.integers(1, 20),
    crash_points=st.lists(st.integers(0, 40), max_size=6),
    seed=st.integers(0, 2**32),
)
def test_any_number_of_crashes_skips_nothing_and_repeats_only_what_was_not_stored(
    messages: int, batch_size: int, max_pending: int, crash_points: list[int], seed: int
) -> None:
    world = World(messages, batch_size, max_pending)
    random = Random(seed)
    choice = iter(lambda: random.randrange(1000), None)
    for crash_after in crash_points:
        stored, before = world.stored, len(world.handled)
        crash(world, choice, crash_after)
        this_life = world.handled[before:]
        assert len(this_life) == len(set(this_life)), "repeated within one life"
        assert all(message > stored for message in this_life), "repeated though stored"
        assert world.stored >= stored
    world.run(choice)
    assert set(world.handled) == set(range(1, messages + 1))
    assert world.stored == messages
