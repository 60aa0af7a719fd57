"""A handler that fails: nothing is delivered to it again but after a new claim."""

from __future__ import annotations

import pytest

from milepost import Milepost, Position, RecordedMessage, Retry, Segment
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.errors import CannotSkip, SelfCheckpointingFailed
from milepost.processors.set_aside.skip import skip
from tests.integration.processors import sessions
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Instance, running
from tests.integration.processors.self_checkpointing.conftest import Stored
from tests.integration.processors.self_checkpointing.models import Model
from tests.waiting import wait_until


class Failing(Model):
    """Fails at one position, so many times."""

    def __init__(self, at: Position, times: int) -> None:
        super().__init__()
        self.at, self.times = at, times

    def __call__(self, messages: list[RecordedMessage], segment: Segment) -> None:
        for message in messages:
            if message.position == self.at and self.times:
                self.times -= 1
                raise ValueError("a bad message")
            Model.__call__(self, [message], segment)


def test_after_a_failure_everything_comes_again_from_the_stored_position(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    positions = put(10)
    model = Failing(positions[6], times=1)
    made = mp.processor("balances", delivery="at_least_once", poll_seconds=0.05)(model)
    with running(made):
        model.wait_for(16)
    assert model.positions() == positions[:6] + positions
    assert model.names == ["claimed", "lost", "claimed", "released"]
    assert stored() >= positions[-1]


def test_a_handler_that_never_succeeds_stops_the_processor(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    positions = put(10)
    model = Failing(positions[6], times=1000)
    made = mp.processor(
        "balances", delivery="at_least_once", handle="message", poll_seconds=0.05,
        retry=Retry(limit=2),
    )(PerMessage(model))  # fmt: skip
    error = Instance(made).ends()
    assert isinstance(error, SelfCheckpointingFailed)
    assert (error.attempts, error.position) == (3, str(positions[6]))
    assert "a bad message. The checkpoint is at 0:0." in str(error)
    assert model.positions() == positions[:6] * 3
    assert stored() == Position.BEGINNING


def test_skip_is_refused_because_the_checkpoint_does_not_stand_before_the_bad_message(
    mp: Milepost, put: Put, conn: Connection
) -> None:
    positions = put(10)
    model = Failing(positions[6], times=1000)
    made = mp.processor(
        "balances", delivery="at_least_once", poll_seconds=0.05, retry=Retry(limit=0)
    )(model)
    assert isinstance(Instance(made).ends(), SelfCheckpointingFailed)
    with pytest.raises(CannotSkip, match="not the one it is stuck at"):
        skip(conn, "milepost", CheckpointKey("balances"))


def test_failures_at_ever_later_messages_are_no_reason_to_stop(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    positions = put(10)

    class Stumbling(Model):
        def __init__(self) -> None:
            super().__init__()
            self.bad = set(positions[2:9:2])

        def __call__(self, messages: list[RecordedMessage], segment: Segment) -> None:
            for message in messages:
                if message.position in self.bad:
                    self.bad.remove(message.position)
                    raise ValueError("only once")
                Model.__call__(self, [message], segment)

    model = Stumbling()
    made = mp.processor(
        "balances", delivery="at_least_once", handle="message", poll_seconds=0.05,
        retry=Retry(limit=1),
    )(PerMessage(model))  # fmt: skip
    with running(made):
        wait_until(lambda: model.positions()[-10:] == positions)


def test_a_lost_connection_ends_the_claims_and_the_next_session_begins_anew(
    mp: Milepost, put: Put, stored: Stored, conn: Connection
) -> None:
    positions = put(10)
    model = Model()
    made = mp.processor("balances", delivery="at_least_once", poll_seconds=0.05)(model)
    with running(made):
        model.wait_for(10)
        old = model.trigger
        sessions.terminate(conn, "balances")
        model.wait_for_call("claimed", 2)
        assert not old.is_active
        model.wait_for(20)
        model.trigger.request()
        wait_until(lambda: stored() >= positions[-1])
    # A release may have been tried first, in vain.
    assert model.names[model.names.index("claimed", 1) - 1] == "lost"


class PerMessage(Model):
    """Hands one message at a time on to another model's list."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def __call__(self, message: RecordedMessage, segment: Segment) -> None:  # type: ignore[override]
        self.model([message], segment)
