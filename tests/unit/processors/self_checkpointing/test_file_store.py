"""Work that is kept in files: what a former owner saves late is never read."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost import FileStore, Position, RecordedMessage, Segment, Snapshot, StaleWrite, Trigger
from milepost.errors import InvalidEntries
from milepost.processors.segments.split_merge import halves
from milepost.processors.self_checkpointing.snapshot import Header, Part, continued

KEYS = [f"key-{n}" for n in range(12)]
WHOLE = Segment.WHOLE
LEFT, RIGHT = halves(WHOLE)
NOW = datetime.now(UTC)


def claim(epoch: int, segment: Segment = WHOLE, start: Position = Position.BEGINNING) -> Trigger:
    return Trigger(segment, lambda: None, epoch, start)


def at(position: int) -> Position:
    return Position(0, position)


def message(position: int, key: str) -> RecordedMessage:
    return RecordedMessage("Deposited", None, at(position), NOW, key=key)


def files_of(store: FileStore) -> list[str]:
    return sorted(path.name for path in Path(store.directory).iterdir())


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "balances")


def test_what_is_saved_is_loaded_under_the_next_claim(store: FileStore) -> None:
    assert store.load(claim(1)) == Snapshot({})
    store.save(claim(1), {"a": 5, "b": {"c": [1, None, "x\0"]}}, at(7))
    loaded = store.load(claim(2))
    assert loaded.entries == {"a": 5, "b": {"c": [1, None, "x\0"]}}
    assert [loaded.includes(message(n, "a")) for n in (6, 7, 8)] == [True, True, False]


def test_a_save_under_a_former_claim_is_refused(store: FileStore) -> None:
    store.load(claim(1))
    store.load(claim(2))
    with pytest.raises(StaleWrite, match="epoch 2 has it now") as caught:
        store.save(claim(1), {"a": 1}, at(9))
    assert (caught.value.segment, caught.value.epoch) == (0, 1)
    with pytest.raises(StaleWrite):
        store.load(claim(1))
    assert store.read() == Snapshot({})


def test_a_save_below_what_is_saved_is_refused(store: FileStore) -> None:
    store.load(claim(1))
    store.save(claim(1), {"a": 2}, at(9))
    with pytest.raises(StaleWrite, match="0:9 is saved already, and 0:8 is lower"):
        store.save(claim(1), {"a": 1}, at(8))
    assert store.read().entries == {"a": 2}


@pytest.mark.parametrize("moment", ["open", "fsync", "replace"])
def test_whenever_a_former_owner_was_frozen_its_save_is_not_read(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """It has found that the claim is its own, and goes on after the next one has saved."""
    store.load(claim(1))
    store.save(claim(1), {"a": 1}, at(1))
    with frozen_at(moment, monkeypatch, lambda: store.save(claim(1), {"a": 2}, at(2))):
        assert store.load(claim(2)).entries == {"a": 1}
        store.save(claim(2), {"a": 3}, at(3))
    assert store.read().entries == store.load(claim(3)).entries == {"a": 3}


def test_a_save_that_was_given_up_does_not_undo_the_next_one(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both of one claim. Seen to fail without the lock."""
    store.load(claim(1))
    late = threading.Thread(target=lambda: store.save(claim(1), {"a": 9}, at(9)))
    with frozen_at("open", monkeypatch, lambda: store.save(claim(1), {"a": 5}, at(5))):
        late.start()
        late.join(0.3)  # it waits; without the lock it would be done
    late.join(30)
    assert store.read() == Snapshot({"a": 9}, (Part(WHOLE, at(9)),))


@contextmanager
def frozen_at(
    moment: str, monkeypatch: pytest.MonkeyPatch, call: Callable[[], None]
) -> Iterator[None]:
    """Calls it in a thread that stops at the moment until the end of the block."""
    there, goes_on = threading.Event(), threading.Event()
    owner, name = (Path, "open") if moment == "open" else (os, moment)
    real: Any = getattr(owner, name)

    def stopping(*arguments: Any, **named: Any) -> Any:
        is_write = moment != "open" or arguments[1:2] == ("xb",)
        if threading.current_thread() is thread and is_write and not there.is_set():
            there.set()
            assert goes_on.wait(30)
        return real(*arguments, **named)

    def run() -> None:
        with suppress(StaleWrite):  # as good as a save that is not read
            call()

    thread = threading.Thread(target=run)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, stopping)
        thread.start()
        assert there.wait(30)
        yield
        goes_on.set()
        thread.join(30)


def test_the_halves_of_a_split_find_their_keys(store: FileStore) -> None:
    store.load(claim(1))
    store.save(claim(1), dict.fromkeys(KEYS, 1), at(5))
    left = store.load(claim(2, LEFT))
    assert set(left.entries) == {key for key in KEYS if LEFT.holds(key)}
    with pytest.raises(StaleWrite):
        store.save(claim(1), {}, at(6))  # who had the whole
    store.save(claim(2, LEFT), dict.fromkeys(left.entries, 2), at(6))
    right = store.load(claim(2, RIGHT))
    assert right.entries == {key: 1 for key in KEYS if RIGHT.holds(key)}
    assert store.read().entries == left.entries | dict.fromkeys(left.entries, 2) | right.entries


def test_who_merges_knows_how_far_each_half_was(store: FileStore) -> None:
    one, other = (next(k for k in KEYS if half.holds(k)) for half in (LEFT, RIGHT))
    for half, key, reached in ((LEFT, one, 150), (RIGHT, other, 130)):
        store.load(claim(2, half))
        store.save(claim(2, half), {key: reached}, at(reached))
    merged = store.load(claim(4))
    assert merged.entries == {one: 150, other: 130}
    store.save(claim(4), merged.entries, at(140))  # both halves have seen all up to there
    later = store.load(claim(5))
    assert later.includes(message(150, one))
    assert later.includes(message(140, other))
    assert not later.includes(message(141, other))


def test_a_part_that_is_passed_is_raised_and_not_left_out() -> None:
    """Or the one before it, which is further on, would count for its keys."""
    loaded = Header(None, (Part(WHOLE, at(150)), Part(RIGHT, at(130))))
    header = continued(WHOLE, loaded, at(140))
    key = next(key for key in KEYS if RIGHT.holds(key))
    assert not Snapshot({}, header.parts).includes(message(141, key))
    assert continued(WHOLE, loaded, at(150)).parts == (Part(WHOLE, at(150)),)


def test_an_entry_that_is_gone_stays_gone(store: FileStore) -> None:
    store.load(claim(1))
    store.save(claim(1), {"a": 1, "b": 1}, at(1))
    store.load(claim(2))
    store.save(claim(2), {"b": 1}, at(2))
    assert store.load(claim(3)).entries == {"b": 1}


def test_files_of_former_claims_are_removed(store: FileStore) -> None:
    for epoch in range(1, 6):
        store.load(claim(epoch))
        store.save(claim(epoch), {"a": epoch}, at(epoch))
    (Path(store.directory) / "0-0-3.json.0123").touch()  # of one that was killed in a save
    store.load(claim(6))
    assert files_of(store) == ["0-0-6.json"]


def test_foreign_files_are_left_alone(store: FileStore) -> None:
    store.load(claim(1))
    (Path(store.directory) / "README").touch()
    store.load(claim(2))
    assert files_of(store) == ["0-0-2.json", "README"]


def test_keys_that_the_segment_does_not_hold_are_refused(store: FileStore) -> None:
    store.load(claim(1, LEFT))
    foreign = next(key for key in KEYS if RIGHT.holds(key))
    with pytest.raises(InvalidEntries, match="does not hold the key"):
        store.save(claim(1, LEFT), {foreign: 1}, at(1))


@pytest.mark.parametrize("value", [math.nan, object()])
def test_what_is_not_json_is_refused_and_the_last_save_stays(store: FileStore, value: Any) -> None:
    store.load(claim(1))
    store.save(claim(1), {"a": 1}, at(1))
    with pytest.raises(InvalidEntries):
        store.save(claim(1), {"a": value}, at(2))
    assert store.read().entries == {"a": 1}
    assert files_of(store) == ["0-0-1.json", "0-0-1.lock"]


def test_it_is_on_the_disk_when_it_returns(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def noted(name: str) -> Callable[..., Any]:
        real: Any = getattr(os, name)

        def call(*arguments: Any) -> Any:
            done.append(name)
            return real(*arguments)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, noted(name))
    store.load(claim(1))
    done.clear()
    store.save(claim(1), {"a": 1}, at(1))
    assert done == ["fsync", "replace", "fsync"]


# Whatever happens: claims that are lost, splits, merges, and owners that save long after.


@dataclass(slots=True)
class Owner:
    """A claim and its state in memory; a count of messages by key."""

    trigger: Trigger
    snapshot: Snapshot
    counts: dict[str, int]
    reached: Position


@dataclass(slots=True)
class World:
    """A log of deposits, the checkpoints in the database, and everybody who ever had a claim."""

    store: FileStore
    keys: list[str] = field(default_factory=list)  # of message n + 1
    checkpoints: dict[Segment, Position] = field(default_factory=lambda: {WHOLE: at(0)})
    epochs: dict[Segment, int] = field(default_factory=lambda: {WHOLE: 0})
    owners: list[Owner] = field(default_factory=list)

    def claim(self, segment: Segment) -> Owner:
        self.epochs[segment] += 1
        start = self.checkpoints[segment]
        trigger = claim(self.epochs[segment], segment, start)
        snapshot = self.store.load(trigger)
        self.owners.append(Owner(trigger, snapshot, dict(snapshot.entries), start))
        return self.owners[-1]

    def handle(self, owner: Owner, count: int) -> None:
        first = owner.reached.position
        for n, key in enumerate(self.keys[first : first + count], start=first + 1):
            owner.reached = at(n)
            given = message(n, key)
            if owner.trigger.segment.holds(key) and not owner.snapshot.includes(given):
                owner.counts[key] = owner.counts.get(key, 0) + 1

    def save(self, owner: Owner) -> None:
        """The database's own fence is its epoch; the file's must be as good."""
        segment = owner.trigger.segment
        try:
            self.store.save(owner.trigger, owner.counts, owner.reached)
        except StaleWrite:
            return
        if self.epochs.get(segment) == owner.trigger.epoch:
            self.checkpoints[segment] = max(self.checkpoints[segment], owner.reached)

    def split(self, segment: Segment) -> None:
        position, epoch = self.checkpoints.pop(segment), self.epochs.pop(segment)
        for half in halves(segment):
            self.checkpoints[half], self.epochs[half] = position, epoch + 1

    def merge(self) -> None:
        for segment in (LEFT, RIGHT):
            if segment not in self.checkpoints:
                return
        position = min(self.checkpoints.pop(LEFT), self.checkpoints.pop(RIGHT))
        epoch = max(self.epochs.pop(LEFT), self.epochs.pop(RIGHT)) + 1
        self.checkpoints[WHOLE], self.epochs[WHOLE] = position, epoch


STEPS = ["append", "claim", "handle", "handle", "save", "save", "split", "merge"]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 999)), max_size=60))
def test_nothing_is_lost_or_counted_twice_whoever_saves_when(steps: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as directory:
        world = World(FileStore(directory))
        for step, chosen in steps:
            take(world, step, chosen)
        for segment in list(world.checkpoints):
            last = world.claim(segment)
            world.handle(last, len(world.keys))
            world.save(last)
        for owner in world.owners:
            world.save(owner)
        expected = {key: world.keys.count(key) for key in world.keys}
        assert world.store.read().entries == expected


def take(world: World, step: str, chosen: int) -> None:
    segments = sorted(world.checkpoints, key=lambda segment: (segment.mask, segment.id))
    if step == "append":
        world.keys += [KEYS[(chosen + n) % len(KEYS)] for n in range(chosen % 5)]
    elif step == "claim":
        world.claim(segments[chosen % len(segments)])
    elif step == "split" and len(segments) < 4:
        world.split(segments[chosen % len(segments)])
    elif step == "merge":
        world.merge()
    elif world.owners and step == "handle":
        world.handle(world.owners[chosen % len(world.owners)], chosen % 7)
    elif world.owners and step == "save":
        world.save(world.owners[chosen % len(world.owners)])
