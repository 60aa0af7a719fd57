"""Release: every participant is asked once, and the lowest report is stored if it advances."""

from __future__ import annotations

import logging

import pytest

from milepost import Milepost, Position, Segment, Trigger
from milepost.db import Connection
from milepost.processors import Processor
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import running
from tests.integration.processors.self_checkpointing.conftest import Stored
from tests.integration.processors.self_checkpointing.models import (
    Model,
    failing,
    fixed,
    latest,
    nothing,
)
from tests.waiting import wait_until

WHOLE = Segment.WHOLE


def processor(mp: Milepost, *models: Model) -> Processor:
    made = mp.processor("balances", delivery="at_least_once", poll_seconds=0.05)(models[0])
    for model in models[1:]:
        made.handler(model)
    return made


def release(made: Processor, *models: Model, count: int = 10) -> None:
    """Run until all is handled, then stop, which releases."""
    with running(made):
        for model in models:
            model.wait_for(count)


def test_of_two_participants_the_lower_report_is_stored_and_nobody_is_asked_again(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    """1: several participants at different positions. At a release there is no reconciliation:
    whoever was released may have dropped its state, and cannot be asked to reach the other."""
    positions = put(10)
    lower, higher = Model(at_release=fixed(positions[3])), Model(at_release=fixed(positions[8]))
    release(processor(mp, lower, higher), lower, higher)
    assert stored() == positions[3]
    for model in (lower, higher):
        assert model.names == ["claimed", "released"]


def test_the_rest_is_delivered_again_to_all(mp: Milepost, put: Put, stored: Stored) -> None:
    positions = put(10)
    lower, higher = Model(at_release=fixed(positions[3])), Model(at_release=fixed(positions[8]))
    release(processor(mp, lower, higher), lower, higher)
    lower.at_release = higher.at_release = latest
    release(mp.processors["balances"], lower, higher, count=16)
    assert lower.positions() == higher.positions() == positions + positions[4:]
    assert stored() >= positions[-1]


@pytest.mark.parametrize("place", [0, 1])
def test_no_advance_of_one_is_no_advance(
    mp: Milepost, put: Put, stored: Stored, place: int
) -> None:
    models = [Model(at_release=latest), Model(at_release=latest)]
    models[place].at_release = nothing
    put(10)
    release(processor(mp, *models), *models)
    assert stored() == Position.BEGINNING


def test_a_report_beyond_what_was_consumed_is_cut(mp: Milepost, put: Put, stored: Stored) -> None:
    positions = put(10)
    far = Position(positions[-1].transaction_id + 5, 10**6)
    model = Model(at_release=fixed(far))
    release(processor(mp, model), model)
    assert positions[-1] <= stored() < far
    assert stored() == model.asked_for("released")[0]


def test_a_report_below_the_last_checkpoint_is_ignored(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    positions = put(10)
    model = Model(at_release=fixed(positions[2]))
    with running(processor(mp, model)):
        model.wait_for(10)
        model.trigger.request(positions[6])
        wait_until(lambda: stored() == positions[6])
    assert stored() == positions[6]


def test_a_participant_that_fails_still_releases_the_claim(
    mp: Milepost, put: Put, stored: Stored, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """The other one is asked all the same, and nothing is stored."""
    put(10)
    bad, good = Model(at_release=failing), Model(at_release=latest)
    with caplog.at_level(logging.WARNING, "milepost.processors"):
        release(processor(mp, bad, good), bad, good)
    assert good.names == bad.names == ["claimed", "released"]
    assert stored() == Position.BEGINNING
    row = conn.execute("select owner, last_error from milepost.segments").fetchone()
    assert row is not None
    assert row[0] is None
    assert "Model failed: ConnectionError: the store is away" in row[1]
    assert "releasing it failed" in caplog.text


def test_a_report_that_is_no_position_is_a_failure(
    mp: Milepost, put: Put, stored: Stored, conn: Connection
) -> None:
    put(10)
    model = Model(at_release=lambda _segment, _up_to: 7)  # type: ignore[arg-type,return-value]
    release(processor(mp, model), model)
    assert stored() == Position.BEGINNING
    row = conn.execute("select last_error from milepost.segments").fetchone()
    assert row is not None
    assert "reported 7, which is neither a Position" in row[0]


def test_the_trigger_is_inert_after_it(mp: Milepost, put: Put, stored: Stored) -> None:
    positions = put(10)
    model = Model(at_release=nothing)
    release(processor(mp, model), model)
    assert not model.trigger.is_active
    model.trigger.request(positions[4])
    model.trigger.request()
    other = Model(at_release=nothing)
    mp2 = Milepost(mp._url)
    release(processor(mp2, other), other)  # whoever has the segment now hears nothing of it
    assert other.names == ["claimed", "released"]
    assert stored() == Position.BEGINNING


def test_by_default_a_release_asks_like_a_checkpoint(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    class Plain(Model):
        on_segment_released = Model.__mro__[1].on_segment_released  # type: ignore[attr-defined]

    model = Plain()
    positions = put(10)
    release(processor(mp, model), model)
    assert model.names == ["claimed", "advanced"]
    assert stored() >= positions[-1]


def test_a_claim_whose_participant_fails_is_given_back_and_tried_again(
    mp: Milepost, put: Put, stored: Stored, conn: Connection
) -> None:
    """Another segment of the same instance goes on meanwhile."""

    class Picky(Model):
        failures = 2

        def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
            Model.on_segment_claimed(self, segment, trigger)
            if segment.id == 1 and self.failures:
                self.failures -= 1
                raise ConnectionError("nothing to load from")

    model = Picky()
    made = mp.processor("balances", delivery="at_least_once", segments=2, poll_seconds=0.05)(model)
    with running(made):
        positions = put(20, keys=20)
        model.wait_for(20)
        row = conn.execute("select last_error from milepost.segments where id = 1").fetchone()
    assert sorted(model.positions()) == positions  # nothing was given to a claim that failed
    claims = [call.segment.id for call in model.calls if call.name == "claimed"]
    assert sorted(claims) == [0, 1, 1, 1]
    assert row is not None
    assert "claiming it failed: Picky failed: ConnectionError: nothing to load from" in row[0]
    first, second, third = (t for t in model.all_triggers if t.segment.id == 1)
    assert (first.is_active, second.is_active) == (False, False)
    assert first.epoch < second.epoch < third.epoch
