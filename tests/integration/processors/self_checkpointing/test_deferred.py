"""All handlers checkpoint themselves: the stored position moves only on request and at release."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from threading import Barrier, Event
from typing import Any

import pytest

from milepost import (
    LATEST,
    Checkpointing,
    Message,
    Milepost,
    Position,
    RecordedMessage,
    Segment,
    Trigger,
)
from milepost.db import Connection
from milepost.processors import Processor
from milepost.processors.self_checkpointing.participants import NONE_LIMIT
from milepost.processors.self_checkpointing.reconcile import Report, Request
from milepost.sql import LogOrder
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import running
from tests.integration.processors.self_checkpointing.conftest import Stored
from tests.integration.processors.self_checkpointing.models import (
    Eager,
    Model,
    Reporting,
    fixed,
    latest,
    nothing,
)
from tests.waiting import wait_until

FAR_AHEAD = Position(2**40, 1)  # beyond any transaction that a test makes


@pytest.fixture(params=["append", "transaction"])
def order(request: pytest.FixtureRequest) -> LogOrder:
    chosen: LogOrder = request.param
    return chosen


def processor(mp: Milepost, *models: Any, batch_size: int = 500) -> Processor:
    made = mp.processor(
        "balances", delivery="at_least_once", batch_size=batch_size, poll_seconds=0.05
    )(models[0])
    for model in models[1:]:
        made.handler(model)
    return made


def test_handling_moves_no_checkpoint_and_a_release_does(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    model = Model()
    with running(processor(mp, model)):
        positions = put(10)
        model.wait_for(10)
        more = put(5)
        model.wait_for(15)
        assert stored() == Position.BEGINNING
        assert model.names == ["claimed"]
    assert model.names == ["claimed", "released"]
    assert model.positions() == positions + more
    assert stored() >= more[-1]


def test_a_request_from_a_handlers_parameter_stores_what_was_handled(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    model = Eager()
    with running(processor(mp, model)):
        positions = put(10)
        wait_until(lambda: stored() >= positions[-1])
        assert "released" not in model.names


def test_a_request_from_another_thread_stores_up_to_a_position(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    model = Model()
    with running(processor(mp, model)):
        positions = put(10)
        model.wait_for(10)
        model.trigger.request(positions[4])
        wait_until(lambda: stored() == positions[4])
        assert model.asked_for("advanced") == [positions[4]]


@pytest.mark.parametrize("wanted", [FAR_AHEAD, LATEST], ids=["far ahead", "latest"])
def test_a_request_beyond_what_was_consumed_is_cut_there(
    mp: Milepost, put: Put, stored: Stored, wanted: Request
) -> None:
    """LATEST too: it is what was consumed, not the end of the log."""
    gate = Event()

    class Slow(Model):
        def __call__(self, messages: list[RecordedMessage], segment: Segment) -> None:
            if self.positions():
                gate.wait(30)
            Model.__call__(self, messages, segment)
            self.triggers[segment].request(wanted)

    model = Slow()
    with running(processor(mp, model, batch_size=3)):
        try:
            positions = put(6)  # the second batch of three waits at the gate
            wait_until(lambda: stored() >= positions[2])
            assert stored() == positions[2]
            assert model.asked_for("advanced") == [positions[2]]
        finally:
            gate.set()
        wait_until(lambda: stored() >= positions[5])


def test_latest_as_a_report_is_what_was_consumed(mp: Milepost, put: Put, stored: Stored) -> None:
    """12 of the seed's list: LATEST as the return value of on_checkpoint_advanced."""
    model = Model(report=latest)
    with running(processor(mp, model)):
        positions = put(10)
        model.wait_for(10)
        model.trigger.request(positions[2])
        wait_until(lambda: stored() >= positions[-1])


def test_a_report_below_what_was_asked_for_is_what_is_stored(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    positions = put(10)
    model = Model(report=fixed(positions[6]), at_release=nothing)
    with running(processor(mp, model)):
        model.wait_for(10)
        model.trigger.request()
        wait_until(lambda: stored() == positions[6])
    assert stored() == positions[6]


def test_no_advance_stores_nothing_and_nothing_has_failed(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    model = Model(report=nothing)
    with running(processor(mp, model)):
        put(10)
        model.wait_for(10)
        model.trigger.request()
        model.wait_for_call("advanced")
        put(1)
        model.wait_for(11)
    assert model.names == ["claimed", "advanced", "released"]
    assert stored() == Position.BEGINNING


@pytest.mark.parametrize("order", ["append"])
def test_who_never_advances_is_warned_about_once(
    mp: Milepost, put: Put, caplog: pytest.LogCaptureFixture
) -> None:
    """A `return` was forgotten, most likely: nothing fails, and the checkpoint stays for ever."""
    model = Model(report=nothing)
    with (
        caplog.at_level(logging.WARNING, "milepost.processors"),
        running(processor(mp, model)),
    ):
        for asked in range(1, 2 * NONE_LIMIT + 2):
            put(1)
            model.wait_for(asked)
            model.trigger.request()
            model.wait_for_call("advanced", asked)
            if asked < NONE_LIMIT:
                assert not warnings_of(caplog)
    (warned,) = warnings_of(caplog)
    assert "Model.on_checkpoint_advanced returned None 10 times in a row" in warned
    assert "Return LATEST" in warned


@pytest.mark.parametrize("order", ["append"])
def test_who_advances_now_and_then_is_not_warned_about(
    mp: Milepost, put: Put, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[int] = []

    def report(_segment: Segment, requested: Position) -> Report:
        answers.append(1)
        return requested if len(answers) % (NONE_LIMIT - 1) == 0 else None

    model = Model(report=report)
    with (
        caplog.at_level(logging.WARNING, "milepost.processors"),
        running(processor(mp, model)),
    ):
        for asked in range(1, 2 * NONE_LIMIT + 2):
            put(1)
            model.wait_for(asked)
            model.trigger.request()
            model.wait_for_call("advanced", asked)
    assert not warnings_of(caplog)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if "None" in message]


def test_what_was_stored_is_not_asked_for_again_and_never_goes_back(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    """7: the regress guard while running. 5 was stored; a request for 3 changes nothing, nor does
    a report of 3."""
    positions = put(10)
    model = Model()
    with running(processor(mp, model)):
        model.wait_for(10)
        model.trigger.request(positions[4])
        wait_until(lambda: stored() == positions[4])
        model.trigger.request(positions[2])
        model.report = fixed(positions[2])
        model.trigger.request(positions[7])
        model.wait_for_call("advanced", 2)
        model.at_release = fixed(positions[3])
    assert model.asked_for("advanced") == [positions[4], positions[7]]
    assert model.names == ["claimed", "advanced", "advanced", "released"]  # nothing has failed
    assert stored() == positions[4]


def test_requests_that_come_at_once_are_one_for_the_highest(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    """8: 5 and 8 from two threads, while the segment is busy, are one question for 8; 3 after it
    is none."""
    positions = put(10)
    gate, inside = Event(), Event()

    def report(segment: Segment, requested: Position) -> Report:
        inside.set()
        gate.wait(30)
        return requested

    model = Model(report=report)
    with running(processor(mp, model)):
        model.wait_for(10)
        model.trigger.request(positions[0])
        inside.wait(30)  # it is being served: what comes now comes together
        barrier = Barrier(2)

        def ask(n: int) -> None:
            barrier.wait()
            model.trigger.request(positions[n])

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(ask, (4, 7)))
        model.trigger.request(positions[2])
        gate.set()
        wait_until(lambda: stored() == positions[7])
        model.trigger.request(positions[2])
    assert model.asked_for("advanced") == [positions[0], positions[7]]


def test_laggards_are_asked_up_to_the_highest_report(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    positions = put(10)
    ahead = Model(report=fixed(positions[7]), at_release=nothing)
    behind = Model(report=_in_turn(positions[4], positions[7]), at_release=nothing)
    with running(processor(mp, ahead, behind)):
        behind.wait_for(10)
        behind.trigger.request()
        wait_until(lambda: stored() == positions[7])
    assert len(ahead.asked_for("advanced")) == 1
    assert behind.asked_for("advanced")[1:] == [positions[7]]


def test_a_laggard_that_overtakes_the_leader_is_followed(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    """The leader had made 5 durable; asked for 5, the laggard reports 8, and the leader can too."""
    positions = put(10)
    ahead = Model(report=_in_turn(positions[4], positions[7]), at_release=nothing)
    behind = Model(report=_in_turn(positions[2], positions[7]), at_release=nothing)
    with running(processor(mp, ahead, behind)):
        behind.wait_for(10)
        behind.trigger.request(positions[7])
        wait_until(lambda: stored() == positions[7])
    assert ahead.asked_for("advanced") == [positions[7], positions[7]]
    assert behind.asked_for("advanced") == [positions[7], positions[4]]
    assert stored() == positions[7]


def test_a_request_for_what_is_not_consumed_yet_is_kept(
    mp: Milepost, conn: Connection, put: Put, stored: Stored
) -> None:
    """What `mp.append` has just returned: the message waits at the gate as it is asked for."""
    gate = Event()

    class Slow(Model):
        def __call__(self, messages: list[RecordedMessage], segment: Segment) -> None:
            gate.wait(30)
            Model.__call__(self, messages, segment)

    model = Slow()
    with running(processor(mp, model, batch_size=2)):
        try:
            model.wait_for_call("claimed")
            positions = put(6)
            model.trigger.request(positions[3])
            model.trigger.request()  # does not replace it
        finally:
            gate.set()
        wait_until(lambda: stored() >= positions[3])
        model.wait_for(6)
        assert stored() == positions[3]
    assert model.asked_for("advanced")[-1] == positions[3]


def test_who_stays_behind_fails_the_checkpoint_and_the_segment_is_retried(
    mp: Milepost, put: Put, stored: Stored, conn: Connection
) -> None:
    positions = put(10)
    ahead = Model(report=fixed(positions[7]))
    behind = Model(report=fixed(positions[4]), at_release=nothing)
    with running(processor(mp, ahead, behind)):
        behind.wait_for(10)
        old = behind.trigger
        old.request()
        behind.wait_for_call("claimed", 2)  # given back, and claimed again
        assert stored() == Position.BEGINNING
        assert not old.is_active
        behind.wait_for(20)  # everything again, from the stored position
        row = conn.execute("select last_error from milepost.segments").fetchone()
    assert behind.names[:5] == ["claimed", "advanced", "advanced", "lost", "claimed"]
    assert row is not None
    assert f"Model (at {positions[4]}) did not reach {positions[7]}" in row[0]
    assert stored() == Position.BEGINNING


def test_what_lies_between_is_passed_where_nothing_was_given_to_the_handlers(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    """A filter takes messages out, and never holds back a checkpoint that covers all the rest."""
    model = Model()
    made = mp.processor("balances", delivery="at_least_once", topics=["wanted"], poll_seconds=0.05)(
        model
    )
    with running(made):
        others = put(5)
        wait_until(lambda: stored() >= others[-1])
        wanted = put(2, topic="wanted")
        model.wait_for(2)
        later = put(5)
        model.trigger.request(wanted[-1])
        wait_until(lambda: stored() >= later[-1])
    assert model.asked_for("advanced") == [wanted[-1]]


def test_an_async_model_is_an_equal(mp: Milepost, put: Put, stored: Stored) -> None:
    class AsyncModel(Checkpointing):
        def __init__(self) -> None:
            self.handled = 0
            self.names: list[str] = []

        async def __call__(self, messages: list[RecordedMessage], trigger: Trigger) -> None:
            self.handled += len(messages)
            trigger.request()

        async def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
            self.names.append("claimed")

        async def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Report:
            self.names.append("advanced")
            return requested

    model = AsyncModel()
    with running(processor(mp, model)):
        positions = put(10)
        wait_until(lambda: stored() >= positions[-1])
    assert model.handled == 10
    assert model.names[:2] == ["claimed", "advanced"]
    assert len(model.names) >= 3  # asked at the release too, by default the same way


@pytest.mark.parametrize("order", ["append"])
def test_a_decorated_handler_checkpoints_itself_too(mp: Milepost, put: Put, stored: Stored) -> None:
    """It was an ordinary one before: the checkpoint moved, and no callback was called."""
    model = Model()

    @wraps(model)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    with running(processor(mp, decorated)):
        positions = put(10)
        model.wait_for(10)
        assert stored() == Position.BEGINNING
    assert model.names == ["claimed", "released"]
    assert stored() >= positions[-1]


def test_def_and_async_def_make_up_one_processor(mp: Milepost, put: Put, stored: Stored) -> None:
    class AsyncModel(Model):
        async def handle(self, messages: list[RecordedMessage], segment: Segment) -> None:
            Model.__call__(self, messages, segment)

    plain, coloured = Model(), AsyncModel()
    made = processor(mp, plain)
    made.handler(coloured.handle)
    with running(made):
        positions = put(10)
        coloured.wait_for(10)
        plain.trigger.request()
        wait_until(lambda: stored() >= positions[-1])
    assert plain.positions() == coloured.positions() == positions


def test_caught_up_means_handled_and_released(mp: Milepost, put: Put, stored: Stored) -> None:
    positions = put(10)
    model = Model()
    made = processor(mp, model)
    made.run(until="caught_up")
    assert model.names == ["claimed", "released"]
    assert stored() >= positions[-1]
    assert made.caught_up()


def test_exactly_once_is_refused(mp: Milepost) -> None:
    made = mp.processor("balances", delivery="exactly_once")(Model())  # nobody shares it
    with pytest.raises(ValueError, match=r"no transaction.*at_least_once"):
        made.run(until="caught_up")


@pytest.mark.parametrize("on_failure", ["skip", "park"])
def test_setting_messages_aside_is_refused(mp: Milepost, on_failure: str) -> None:
    made = mp.processor("balances", delivery="at_least_once", on_failure=on_failure)(Model())  # type: ignore[arg-type]  # parametrized
    with pytest.raises(ValueError, match="let the handlers set aside"):
        made.run(until="caught_up")


def test_messages_without_a_key_go_to_one_segment(
    mp: Milepost, conn: Connection, stored: Stored
) -> None:
    model = Model()
    made = mp.processor("balances", delivery="at_least_once", segments=4, poll_seconds=0.05)(model)
    with running(made):
        mp.append(conn, *(Message("Counted", n) for n in range(5)))
        model.wait_for(5)
    assert list(model.handled) == [Segment(0, 3)]


def _in_turn(*positions: Position) -> Reporting:
    answers = iter(positions)
    return lambda _segment, _requested: next(answers)
