"""One self-checkpointing handler over many segments, and what becomes of it when they move."""

from __future__ import annotations

from functools import partial
from threading import Barrier, Event, Thread

import pytest

from milepost import Message, Milepost, Position, RecordedMessage, Segment, db
from milepost import log as the_log
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.processors import Processor
from milepost.processors.segments import operations, session
from milepost.processors.segments.keeper import Keeper
from milepost.processors.self_checkpointing.reconcile import Report
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Instance, running
from tests.integration.processors.self_checkpointing.conftest import Stored
from tests.integration.processors.self_checkpointing.models import Eager, Model, latest, nothing
from tests.waiting import wait_until

KEY = CheckpointKey("balances")
WHOLE, EVEN, ODD = Segment.WHOLE, Segment(0, 1), Segment(1, 1)


def processor(mp: Milepost, model: Model, segments: int = 1) -> Processor:
    return mp.processor("balances", delivery="at_least_once", segments=segments, poll_seconds=0.05)(
        model
    )


def test_one_instance_has_a_trigger_of_its_own_for_every_segment(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    """3: and each segment is checkpointed at a position of its own."""
    model = Model(at_release=nothing)
    with running(processor(mp, model, segments=2)):
        put(40, keys=40)
        model.wait_for(40)
        even, odd = model.handled[EVEN], model.handled[ODD]
        assert model.triggers[EVEN] is not model.triggers[ODD]
        model.triggers[EVEN].request(even[2])
        wait_until(lambda: stored(0) == even[2])
        assert stored(1) == Position.BEGINNING
        model.triggers[ODD].request(odd[7])
        wait_until(lambda: stored(1) == odd[7])
        assert stored(0) == even[2]
    assert {trigger.segment for trigger in model.all_triggers} == {EVEN, ODD}
    assert all(EVEN.holds(f"key-{n}") != ODD.holds(f"key-{n}") for n in range(40))


def test_a_handler_is_given_the_trigger_of_the_segment_it_handles(mp: Milepost, put: Put) -> None:
    model = Eager()
    with running(processor(mp, model, segments=4)):
        put(40, keys=40)
        model.wait_for(40)
        model.wait_for_call("advanced", 4)
    asked = {call.segment for call in model.calls if call.name == "advanced"}
    assert asked == {Segment(n, 3) for n in range(4)}


def test_two_instances_share_the_segments_and_each_flushes_what_it_gives_away(
    mp: Milepost, url: str, put: Put, stored: Stored
) -> None:
    first, second = Model(), Model()
    with running(processor(mp, first, segments=4)):
        before = put(40, keys=40)
        first.wait_for(40)
        with running(processor(Milepost(url), second, segments=4)):
            second.wait_for_call("claimed", 2)
            given = [call.segment for call in second.calls]
            assert all(stored(segment.id) >= before[-1] for segment in given)
            after = put(40, keys=40)
            wait_until(lambda: len(first.positions()) + len(second.positions()) == 80)
    assert sorted(first.positions() + second.positions()) == before + after  # nothing twice
    for model in (first, second):
        assert model.names.count("released") == model.names.count("claimed")
        assert "lost" not in model.names


def test_a_split_releases_the_whole_and_claims_the_halves(
    mp: Milepost, url: str, put: Put, stored: Stored
) -> None:
    """10: the flush is stored before the position is read, so the halves begin where it ended."""
    model = Model()
    with running(processor(mp, model)):
        before = put(20, keys=20)
        model.wait_for(20)
        old = model.trigger
        operations.split(partial(db.connect, url), "milepost", KEY)
        model.wait_for_call("claimed", 3)
        assert not old.is_active
        after = put(20, keys=20)
        model.wait_for(40)
        calls = list(model.calls)
    assert [(call.name, call.segment) for call in calls[:2]] == [
        ("claimed", WHOLE),
        ("released", WHOLE),
    ]
    assert {(call.name, call.segment) for call in calls[2:4]} == {
        ("claimed", EVEN),
        ("claimed", ODD),
    }
    assert all(call.position is not None and call.position >= before[-1] for call in calls[2:4])
    assert model.handled[WHOLE] == before
    assert sorted(model.handled[EVEN] + model.handled[ODD]) == after


def test_a_merge_releases_the_halves_and_claims_the_whole(
    mp: Milepost, url: str, put: Put, stored: Stored
) -> None:
    """10: one half had made less durable than the other. Nothing is skipped, and what the other
    had done is not delivered again."""
    positions = put(20, keys=20)
    durable: dict[Segment, Position] = {}

    def report(segment: Segment, up_to: Position) -> Report:
        if segment == ODD:
            durable[ODD] = model.handled[ODD][2]
            return durable[ODD]
        return up_to

    model = Model(at_release=report)
    with running(processor(mp, model, segments=2)):
        model.wait_for(20)
        old = list(model.triggers.values())
        operations.merge(partial(db.connect, url), "milepost", KEY)
        wait_until(lambda: WHOLE in model.triggers)
        assert not any(trigger.is_active for trigger in old)
        again = [position for position in model.handled[ODD] if position > durable[ODD]]
        wait_until(lambda: model.handled.get(WHOLE) == again)
        model.at_release = latest
    assert model.names.count("released") == 3
    assert sorted({*model.handled[EVEN], *model.handled[ODD]}) == positions
    assert stored() >= positions[-1]


def test_a_reset_rewinds_and_leaves_the_old_trigger_without_effect(
    mp: Milepost, put: Put, stored: Stored, conn: Connection
) -> None:
    """11: the model is released, then claimed at the position of the reset."""
    positions = put(10)
    model = Model()
    made = processor(mp, model)
    with running(made):
        model.wait_for(10)
        model.trigger.request(positions[4])
        wait_until(lambda: stored() == positions[4])
        old = model.trigger
        model.at_release = nothing
        with conn.transaction():
            made.reset("beginning", conn)
        model.wait_for_call("claimed", 2)
        assert not old.is_active
        old.request(positions[9])
        model.wait_for(20)
        assert stored() == Position.BEGINNING
        assert model.triggers[WHOLE] is not old
        model.trigger.request(positions[2])
        wait_until(lambda: stored() == positions[2])  # below where it was before the reset
    assert model.positions() == positions * 2
    assert model.names[:4] == ["claimed", "advanced", "released", "claimed"]
    assert [call.position for call in model.calls if call.name == "claimed"] == [
        Position.BEGINNING
    ] * 2


def test_a_replayed_message_says_so_to_a_model(
    mp: Milepost, put: Put, stored: Stored, conn: Connection
) -> None:
    seen: list[tuple[Position, bool]] = []

    class Noting(Model):
        def __call__(self, messages: list[RecordedMessage], segment: Segment) -> None:
            seen.extend((message.position, message.replaying) for message in messages)
            Model.__call__(self, messages, segment)

    positions = put(4)
    model = Noting(at_release=latest)
    made = processor(mp, model)
    with running(made):
        model.wait_for(4)
        with conn.transaction():
            made.reset("beginning", conn)
        model.wait_for(8)
        more = put(2)
        model.wait_for(10)
    first = [(position, False) for position in positions]
    again = [(position, True) for position in positions]
    assert seen == first + again + [(position, False) for position in more]


def test_a_claim_that_was_lost_stores_nothing_and_its_trigger_is_inert(
    mp: Milepost, url: str, put: Put, stored: Stored, conn: Connection
) -> None:
    """The instance is stalled in its handler while another takes the segment over: what it asks
    for and reports afterwards is fenced, and it is told to write nothing."""
    gate, stalled = Event(), Event()

    class Stalling(Model):
        def __call__(self, messages: list[RecordedMessage], segment: Segment) -> None:
            Model.__call__(self, messages, segment)
            stalled.set()
            gate.wait(30)

    model, other = Stalling(), Model(report=nothing)
    instance = Instance(processor(mp, model))
    try:
        positions = put(10)
        stalled.wait(30)
        old = model.trigger
        old.request()
        conn.execute("update milepost.segments set owner = 'somebody', epoch = epoch + 1")
        conn.execute("update milepost.checkpoints set owner = 'somebody', epoch = epoch + 1")
        gate.set()
        model.wait_for_call("lost")
        assert not old.is_active
        assert stored() == Position.BEGINNING
        old.request(positions[3])
        assert "released" not in model.names
    finally:
        gate.set()
        instance.stop.set()
        assert instance.ends() is None
    conn.execute("update milepost.segments set owner = null, claimed_until = null")
    with running(processor(Milepost(url), other)):
        other.wait_for(10)
    assert other.positions() == positions


def test_two_instances_that_run_until_caught_up_do_not_wait_for_each_other(
    mp: Milepost, url: str, put: Put, stored: Stored, conn: Connection
) -> None:
    models = [Model(), Model()]
    others = [Milepost(url), Milepost(url)]
    positions = put(40, keys=40)
    made = [processor(m, model, 4) for m, model in zip(others, models, strict=True)]
    threads = [Instance(each) for each in made]
    wait_until(lambda: all("claimed" in model.names for model in models))
    for thread in threads:
        thread.stop.set()
        assert thread.ends() is None
    more = put(40, keys=40)
    _run_together(made)
    for segment in range(4):
        assert stored(segment) >= more[-1]
    seen = {*models[0].positions(), *models[1].positions()}
    assert seen == {*positions, *more}


@pytest.fixture
def claiming_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two instances get half of four segments each, and not before both have taken the horizon that
    they are to reach."""
    have_asked, claim = Barrier(2), Keeper._claim
    both_have = Event()

    def claim_late(keeper: Keeper, conn: Connection, number: int) -> None:
        assert both_have.wait(30)
        claim(keeper, conn, min(number, 2))

    def horizon(conn: Connection, schema: str) -> the_log.Horizon:
        taken = the_log.horizon(conn, schema)
        have_asked.wait(30)
        both_have.set()
        return taken

    monkeypatch.setattr(Keeper, "_claim", claim_late)
    monkeypatch.setattr(session, "horizon", horizon)


@pytest.mark.usefixtures("claiming_late")
def test_what_was_claimed_after_the_horizon_was_taken_is_stored_for_the_other_instance_too(
    mp: Milepost, url: str, put: Put, stored: Stored
) -> None:
    """Or each would wait for what the other has handled and not stored."""
    positions = put(40, keys=40)
    _run_together([processor(each, Model(), 4) for each in (mp, Milepost(url))])
    for segment in range(4):
        assert stored(segment) >= positions[-1]


def _run_together(made: list[Processor]) -> None:
    threads = [Thread(target=each.run, args=("caught_up",), daemon=True) for each in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "still waiting"


def test_messages_keep_their_order_by_key(mp: Milepost, conn: Connection) -> None:
    by_key: dict[str, list[int]] = {}

    class Ordered(Model):
        def __call__(self, messages: list[RecordedMessage], segment: Segment) -> None:
            with self.lock:
                for message in messages:
                    by_key.setdefault(str(message.key), []).append(message.data)
            Model.__call__(self, messages, segment)

    model = Ordered()
    with running(processor(mp, model, segments=4)):
        for n in range(100):
            mp.append(conn, Message("Counted", n, key=f"key-{n % 7}"))
        model.wait_for(100)
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
