from __future__ import annotations

from datetime import UTC, datetime
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from milepost.processors.deliver.concurrent import Lanes, Ticket
from milepost.records import Position, RecordedMessage

AT = datetime(2026, 1, 1, tzinfo=UTC)


def ticket(sequence: int, key: str | None) -> Ticket:
    message = RecordedMessage("T", {}, key=key, position=Position(0, sequence), recorded_at=AT)
    return Ticket(message, sequence)


def lanes_of(*keys: str | None) -> Lanes:
    lanes = Lanes()
    for sequence, key in enumerate(keys, start=1):
        lanes.add(ticket(sequence, key))
    return lanes


def take_all(lanes: Lanes) -> list[Ticket]:
    """Everything that may start now."""
    taken = []
    while (found := lanes.take()) is not None:
        taken.append(found)
    return taken


def sequences(tickets: list[Ticket]) -> list[int]:
    return [found.sequence for found in tickets]


def test_nothing_added_is_nothing_to_take() -> None:
    assert Lanes().take() is None


def test_messages_without_a_key_all_run_at_once() -> None:
    assert sequences(take_all(lanes_of(None, None, None))) == [1, 2, 3]


def test_messages_of_different_keys_run_at_once() -> None:
    assert sequences(take_all(lanes_of("a", "b", "c"))) == [1, 2, 3]


def test_an_empty_key_is_a_key() -> None:
    assert sequences(take_all(lanes_of("", ""))) == [1]


def test_messages_of_one_key_run_one_at_a_time_in_order() -> None:
    lanes = lanes_of("a", "a", "a")
    started = []
    while found := take_all(lanes):
        started.append(sequences(found))
        lanes.done(found[0])
    assert started == [[1], [2], [3]]


def test_a_message_added_while_its_key_is_in_hand_waits() -> None:
    lanes = lanes_of("a")
    (first,) = take_all(lanes)
    lanes.add(ticket(2, "a"))
    assert lanes.take() is None
    lanes.done(first)
    assert sequences(take_all(lanes)) == [2]


def test_a_message_added_after_its_key_was_done_starts_at_once() -> None:
    lanes = lanes_of("a")
    (first,) = take_all(lanes)
    lanes.done(first)
    lanes.add(ticket(2, "a"))
    assert sequences(take_all(lanes)) == [2]


def test_the_oldest_that_may_start_is_next() -> None:
    """Else a busy key falls behind everything that was added later, and the checkpoint too."""
    lanes = lanes_of("a", "a", None, None, "b")
    first = lanes.take()
    assert first is not None
    lanes.done(first)
    assert sequences(take_all(lanes)) == [2, 3, 4, 5]


def test_keys_that_are_done_are_forgotten() -> None:
    lanes = lanes_of(*(f"key-{n}" for n in range(100)), None)
    for found in take_all(lanes):
        lanes.done(found)
    assert not lanes._behind


keys = st.sampled_from([None, "a", "b", "c"])
events = st.one_of(
    st.tuples(st.just("add"), keys), st.just(("take", None)), st.just(("done", None))
)


@given(st.lists(events, max_size=80), st.randoms(use_true_random=False))
def test_any_history_agrees_with_the_model(
    history: list[tuple[str, str | None]], chance: Random
) -> None:
    """The model: the oldest waiting message whose key is not in hand."""
    lanes = Lanes()
    waiting: list[Ticket] = []
    running: list[Ticket] = []
    for sequence, (event, key) in enumerate(history, start=1):
        if event == "add":
            waiting.append(ticket(sequence, key))
            lanes.add(waiting[-1])
        elif event == "take":
            taken = lanes.take()
            assert taken == startable(waiting, running)
            if taken is not None:
                waiting.remove(taken)
                running.append(taken)
        elif running:
            finished = running.pop(chance.randrange(len(running)))
            lanes.done(finished)


def startable(waiting: list[Ticket], running: list[Ticket]) -> Ticket | None:
    in_hand = {found.message.key for found in running} - {None}
    return next((found for found in waiting if found.message.key not in in_hand), None)


@given(st.lists(keys, max_size=40), st.integers(1, 8), st.randoms(use_true_random=False))
def test_everything_runs_once_and_each_key_in_order(
    added: list[str | None], workers: int, chance: Random
) -> None:
    lanes, running, finished = lanes_of(*added), list[Ticket](), list[Ticket]()
    while True:
        while len(running) < workers and (found := lanes.take()) is not None:
            running.append(found)
        if not running:
            break
        in_hand = [found.message.key for found in running if found.message.key is not None]
        assert len(in_hand) == len(set(in_hand))
        done = running.pop(chance.randrange(len(running)))
        lanes.done(done)
        finished.append(done)
    assert sorted(sequences(finished)) == list(range(1, len(added) + 1))
    for key in {"a", "b", "c"}:
        of_key = [found.sequence for found in finished if found.message.key == key]
        assert of_key == sorted(of_key)
