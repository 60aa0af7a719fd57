"""What every CheckpointStore does: the one in PostgreSQL and the one in memory alike."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.checkpoints import (
    Answer,
    Checkpoint,
    CheckpointKey,
    CheckpointStore,
    MemoryCheckpointStore,
    PostgresCheckpointStore,
)
from milepost.db import Connection
from milepost.records import Position

# In order, written down and not computed: what answers are expected of is their place in this
# list. The position goes down where the transaction id goes up, or stays; both outgrow 32 bits.
IN_ORDER = [
    Position(0, 0),
    Position(1, 5),
    Position(1, 100),
    Position(2, 5),
    Position(2, 2**40),
    Position(2**40, 1),
    Position(2**62, 2**62),
]
BEGINNING, P1_5, P1_100, P2_5, P2_HUGE, HUGE_1, HIGHEST = IN_ORDER
EPOCH = 7
EPOCHS = {"same": EPOCH, "lower": EPOCH - 1, "higher": EPOCH + 1}


@dataclass(frozen=True, slots=True)
class Case:
    current: Position | None
    expected: Position | None
    new: Position
    epoch: str = "same"

    def __str__(self) -> str:
        return f"at={self.current} expected={self.expected} new={self.new} epoch={self.epoch}"


@pytest.fixture(params=["postgres", "memory"], scope="module")
def store(request: pytest.FixtureRequest, shared_conn: Connection) -> CheckpointStore:
    if request.param == "memory":
        return MemoryCheckpointStore()
    return PostgresCheckpointStore(shared_conn)


@pytest.fixture
def key() -> CheckpointKey:
    """A checkpoint that no other test knows."""
    return CheckpointKey(f"processor-{uuid4()}", version=3, segment=5)


def check(store: CheckpointStore, key: CheckpointKey, case: Case, answer: Answer) -> None:
    if case.current is not None:
        assert store.store(key, None, case.current, epoch=EPOCH, owner="first") is Answer.STORED
    before = store.load(key)
    epoch = EPOCHS[case.epoch]
    assert store.store(key, case.expected, case.new, epoch=epoch, owner="second") is answer
    after = Checkpoint(case.new, epoch, "second") if answer is Answer.STORED else before
    assert store.load(key) == after


@pytest.mark.parametrize(
    ("case", "answer"),
    [
        # The first time.
        (Case(None, None, BEGINNING), Answer.STORED),
        (Case(None, None, P2_5), Answer.STORED),
        (Case(None, None, P2_5, "higher"), Answer.STORED),
        (Case(None, P1_5, P2_5), Answer.MISSING),
        (Case(None, BEGINNING, P2_5), Answer.MISSING),
        (Case(None, P2_5, P2_5), Answer.MISSING),
        (Case(None, P1_5, P2_5, "lower"), Answer.MISSING),
        # As expected.
        (Case(BEGINNING, BEGINNING, P1_5), Answer.STORED),
        (Case(P1_5, P1_5, P1_100), Answer.STORED),
        (Case(P1_100, P1_100, P2_5), Answer.STORED),  # up, though the position alone goes down
        (Case(P2_5, P2_5, P2_HUGE), Answer.STORED),
        (Case(P2_HUGE, P2_HUGE, HUGE_1), Answer.STORED),
        (Case(HUGE_1, HUGE_1, HIGHEST), Answer.STORED),
        # Already there, whatever was expected.
        (Case(P2_5, P2_5, P2_5), Answer.IGNORED),
        (Case(P2_5, P1_100, P2_5), Answer.IGNORED),
        (Case(P2_5, HIGHEST, P2_5), Answer.IGNORED),
        (Case(P2_5, None, P2_5), Answer.IGNORED),
        # Somebody is ahead of what was expected.
        (Case(P2_5, P1_100, P2_HUGE), Answer.FURTHER),
        (Case(P2_5, P1_5, P1_100), Answer.FURTHER),
        (Case(HIGHEST, P1_5, P1_100), Answer.FURTHER),
        # Going back is for a reset alone.
        (Case(P2_5, P2_5, P1_100), Answer.FURTHER),  # back, though the position alone goes up
        (Case(P2_5, P2_5, BEGINNING), Answer.FURTHER),
        # Somebody has reset it.
        (Case(P1_100, P2_5, P2_HUGE), Answer.OLDER),
        (Case(P1_5, P1_100, P2_5), Answer.OLDER),
        (Case(BEGINNING, HIGHEST, HIGHEST), Answer.OLDER),
        (Case(P1_100, P2_5, P1_5), Answer.OLDER),
        (Case(P1_5, P2_5, P2_HUGE), Answer.OLDER),  # though the position alone is as expected
        # It is there though none was expected: measured by the new position.
        (Case(P2_5, None, P1_100), Answer.FURTHER),
        (Case(P1_100, None, P2_5), Answer.OLDER),
        # Another epoch comes before everything else.
        (Case(P1_100, P1_100, P2_5, "lower"), Answer.FENCED),
        (Case(P1_100, P1_100, P2_5, "higher"), Answer.FENCED),
        (Case(P1_100, P1_100, P1_100, "lower"), Answer.FENCED),
        (Case(P1_100, None, P2_5, "lower"), Answer.FENCED),
        (Case(P1_100, P2_5, HIGHEST, "higher"), Answer.FENCED),
        (Case(P1_100, BEGINNING, HIGHEST, "lower"), Answer.FENCED),
    ],
    ids=str,
)
def test_each_case_of_interest_has_its_answer(
    store: CheckpointStore, key: CheckpointKey, case: Case, answer: Answer
) -> None:
    check(store, key, case, answer)


ALL_CASES = [
    Case(*parts)
    for parts in product(
        [None, *IN_ORDER], [None, *IN_ORDER], IN_ORDER, ["same", "lower", "higher"]
    )
]


def rank(position: Position | None) -> int:
    return -1 if position is None else IN_ORDER.index(position)


def answers(case: Case) -> dict[Answer, bool]:
    """What each answer claims, each for itself; one claim alone may be true of a case."""
    current, expected, new = rank(case.current), rank(case.expected), rank(case.new)
    is_there, is_first = case.current is not None, case.expected is None
    is_ours = is_there and case.epoch == "same"
    differs = is_ours and new != current
    return {
        Answer.MISSING: not is_there and not is_first,
        Answer.FENCED: is_there and not is_ours,
        Answer.IGNORED: is_ours and new == current,
        Answer.STORED: (not is_there and is_first)
        or (is_ours and not is_first and expected == current < new),
        Answer.FURTHER: differs
        and (new < current if is_first else expected < current or new < current == expected),
        Answer.OLDER: differs and (new > current if is_first else expected > current),
    }


@pytest.mark.parametrize("epoch", EPOCHS)
@pytest.mark.parametrize("current", [None, *IN_ORDER], ids=str)
def test_every_case_has_one_answer_and_the_store_gives_it(
    store: CheckpointStore, current: Position | None, epoch: str
) -> None:
    cases = [case for case in ALL_CASES if case.current == current and case.epoch == epoch]
    assert len(cases) == (len(IN_ORDER) + 1) * len(IN_ORDER)
    for case in cases:
        (answer,) = (answer for answer, is_so in answers(case).items() if is_so)
        check(store, CheckpointKey(f"all-{uuid4()}"), case, answer)


def test_there_is_no_checkpoint_before_the_first_store(
    store: CheckpointStore, key: CheckpointKey
) -> None:
    assert store.load(key) is None


def test_processors_versions_and_segments_have_checkpoints_of_their_own(
    store: CheckpointStore, key: CheckpointKey
) -> None:
    keys = [
        key,
        CheckpointKey(key.processor + "x", key.version, key.segment),
        CheckpointKey(key.processor, key.version + 1, key.segment),
        CheckpointKey(key.processor, key.version, key.segment + 1),
    ]
    for number, each in enumerate(keys):
        assert store.store(each, None, Position(0, number)) is Answer.STORED
    assert store.store(key, Position(0, 0), HIGHEST) is Answer.STORED
    store.reset(keys[1], P2_5)
    assert [store.load(each) for each in keys] == [
        Checkpoint(HIGHEST),
        Checkpoint(P2_5),
        Checkpoint(Position(0, 2)),
        Checkpoint(Position(0, 3)),
    ]


@pytest.mark.parametrize("to", [BEGINNING, P1_100, P2_5, HIGHEST], ids=str)
def test_a_reset_puts_it_anywhere_and_keeps_the_epoch(
    store: CheckpointStore, key: CheckpointKey, to: Position
) -> None:
    store.store(key, None, P2_5, epoch=EPOCH, owner="first")
    store.reset(key, to)
    assert store.load(key) == Checkpoint(to, EPOCH, "first")


def test_a_reset_makes_a_checkpoint_where_there_is_none(
    store: CheckpointStore, key: CheckpointKey
) -> None:
    store.reset(key, P1_100)
    assert store.load(key) == Checkpoint(P1_100)
    assert store.store(key, P1_100, P2_5) is Answer.STORED


def test_whoever_did_not_know_of_a_reset_is_told_and_goes_on_from_there(
    store: CheckpointStore, key: CheckpointKey
) -> None:
    store.store(key, None, P2_5)
    store.reset(key, P1_5)
    assert store.store(key, P2_5, P2_HUGE) is Answer.OLDER
    store.reset(key, HIGHEST)
    assert store.store(key, P2_5, P2_HUGE) is Answer.FURTHER
    store.reset(key, BEGINNING)
    assert store.store(key, BEGINNING, P1_5) is Answer.STORED


positions = st.sampled_from(IN_ORDER)
stores = st.tuples(
    st.just("store"), st.none() | positions, positions, st.sampled_from(list(EPOCHS))
)
resets = st.tuples(st.just("reset"), st.none(), positions, st.just("same"))


@given(st.lists(stores | resets, max_size=20))
def test_memory_and_sql_agree_on_any_history(
    shared_conn: Connection, history: list[tuple[str, Position | None, Position, str]]
) -> None:
    key = CheckpointKey(f"history-{uuid4()}")
    both: list[CheckpointStore] = [PostgresCheckpointStore(shared_conn), MemoryCheckpointStore()]
    for number, (what, expected, new, epoch) in enumerate(history):
        if what == "reset":
            for store in both:
                store.reset(key, new)
        else:
            epoch_, owner = EPOCHS[epoch], f"owner-{number}"
            in_sql, in_memory = (
                store.store(key, expected, new, epoch=epoch_, owner=owner) for store in both
            )
            assert in_sql is in_memory
        assert both[0].load(key) == both[1].load(key)
