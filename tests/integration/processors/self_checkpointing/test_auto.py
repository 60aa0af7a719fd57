"""An ordinary handler among self-checkpointing ones: the checkpoint moves with every batch."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from milepost import Milepost, Position, RecordedMessage, Retry, Segment
from milepost.db import AsyncConnection, Connection
from milepost.processors import Processor
from milepost.processors.self_checkpointing.reconcile import Report
from tests.integration.cli.command import Cli
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave_all, running
from tests.integration.processors.self_checkpointing.conftest import Stored
from tests.integration.processors.self_checkpointing.models import (
    Model,
    failing,
    fixed,
    latest,
    nothing,
)
from tests.waiting import wait_until

# After a limit an instance ends that gives back all it claims: while the test only looks at it.
ENDLESS = Retry(limit=10_000)


def processor(mp: Milepost, *models: Model, **options: Any) -> Processor:
    given = {"batch_size": 4, "poll_seconds": 0.05} | options
    made = mp.processor("balances", **given)(leave_all)
    for model in models:
        made.handler(model)
    return made


def test_an_ordinary_and_a_self_checkpointing_handler_end_to_end(
    mp: Milepost, put: Put, stored: Stored, effects: Effects, caplog: pytest.LogCaptureFixture
) -> None:
    """4: every batch is stored, and the model is dragged along to each batch's end."""
    positions = put(10)
    model = Model()
    with (
        caplog.at_level(logging.WARNING, "milepost.processors"),
        running(processor(mp, model)),
    ):
        wait_until(lambda: stored() >= positions[-1])
        assert effects.positions() == positions
        assert model.positions() == positions
        assert "released" not in model.names
    asked = model.asked_for("advanced")
    assert asked[:2] == [positions[3], positions[7]]
    assert len(asked) == 3
    assert "processor=balances mode=auto: Model shares it with handlers" in caplog.text


def test_the_mode_is_shown(mp: Milepost, url: str, effects: Effects) -> None:
    processor(mp, Model()).run(until="caught_up")
    deferred = mp.processor("models", delivery="at_least_once")(Model())
    deferred.run(until="caught_up")
    shown = Cli(url).run("processors").stdout
    assert "balances: mode auto" in shown
    assert "models: mode deferred" in shown
    found = Cli(url).run("processors", "--json").document()
    assert {each["name"]: each["mode"] for each in found} == {
        "balances": "auto",
        "models": "deferred",
    }


def test_a_participant_that_fails_leaves_no_trace_of_the_batch(
    mp: Milepost, put: Put, stored: Stored, effects: Effects
) -> None:
    """2: nothing of the ordinary handler, nothing stored, and the batch comes again."""
    positions = put(4)
    model = Model(report=failing)
    with running(processor(mp, model, retry=ENDLESS)):
        model.wait_for_call("claimed", 3)
        assert effects.count() == 0
        assert stored() == Position.BEGINNING
        model.report = latest
        wait_until(lambda: stored() >= positions[-1])
    assert effects.positions() == positions
    assert model.positions()[-4:] == positions


def test_a_participant_that_cannot_cover_the_batch_leaves_no_trace_of_it(
    mp: Milepost, put: Put, stored: Stored, effects: Effects, conn: Connection
) -> None:
    positions = put(4)
    model = Model(report=fixed(positions[2]))
    with running(processor(mp, model, retry=ENDLESS)):
        model.wait_for_call("claimed", 2)
        row = conn.execute("select last_error from milepost.segments").fetchone()
        assert effects.count() == 0
        assert stored() == Position.BEGINNING
    assert row is not None
    assert f"Model (at {positions[2]}) did not reach" in row[0]
    # Asked for the batch's end, and once more for it.
    assert model.names[:4] == ["claimed", "advanced", "advanced", "lost"]


@pytest.mark.parametrize("report", [nothing, failing])
def test_of_several_participants_all_must_cover_the_batch(
    mp: Milepost, put: Put, stored: Stored, effects: Effects, report: Any
) -> None:
    """5, the sad half."""
    put(4)
    good, bad = Model(report=latest), Model(report=report)
    with running(processor(mp, good, bad, retry=ENDLESS)):
        bad.wait_for_call("claimed", 2)
        assert effects.count() == 0
        assert stored() == Position.BEGINNING


def test_of_several_participants_the_laggard_is_asked_up_to_the_batchs_end(
    mp: Milepost, put: Put, stored: Stored, effects: Effects
) -> None:
    """5: several participants at different positions, with the batch's end as the floor."""
    positions = put(4)

    def slow(segment: Segment, requested: Position) -> Report:
        return positions[1] if len(behind.asked_for("advanced")) == 1 else requested

    ahead, behind = Model(report=latest), Model(report=slow)
    with running(processor(mp, ahead, behind, batch_size=4)):
        wait_until(lambda: stored() >= positions[-1])
    assert effects.positions() == positions
    assert len(ahead.asked_for("advanced")) == 1
    assert behind.asked_for("advanced") == ahead.asked_for("advanced") * 2


def test_it_waits_for_durability_outside_any_transaction(
    mp: Milepost, put: Put, stored: Stored, effects: Effects, conn: Connection
) -> None:
    """No session of the processor holds a transaction open while a participant is asked."""
    seen: list[Any] = []

    def look(segment: Segment, requested: Position) -> Report:
        row = conn.execute(
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and application_name = 'milepost balances' and state like 'idle in transaction%'"
        ).fetchone()
        seen.append(row)
        return requested

    positions = put(4)
    with running(processor(mp, Model(report=look))):
        wait_until(lambda: stored() >= positions[-1])
    assert seen[0] == (0,)


def test_an_ordinary_handler_that_fails_is_retried_without_the_others(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    """They have made the batch durable; only what has no effect yet is done again."""
    positions = put(4)
    model, failures = Model(), 3

    def ordinary(messages: list[RecordedMessage], tx: Connection) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise ValueError("not yet")

    made = mp.processor("balances", poll_seconds=0.05, retry=Retry(first_seconds=0.01))(ordinary)
    made.handler(model)
    with running(made):
        wait_until(lambda: stored() >= positions[-1])
    assert model.positions() == positions
    assert model.names == ["claimed", "advanced", "released"]


def test_what_an_ordinary_handler_sets_aside_the_others_have_handled(
    mp: Milepost, put: Put, stored: Stored, conn: Connection
) -> None:
    positions = put(4)
    model = Model()

    def ordinary(messages: list[RecordedMessage], tx: Connection) -> None:
        if any(message.position == positions[1] for message in messages):
            raise ValueError("never")

    made = mp.processor("balances", poll_seconds=0.05, on_failure="skip", retry=Retry(limit=0))(
        ordinary
    )
    made.handler(model)
    with running(made):
        wait_until(lambda: stored() >= positions[-1])
    assert model.positions() == positions
    row = conn.execute('select "position" from milepost.dead_letters').fetchall()
    assert row == [(positions[1].position,)]


def test_a_release_in_the_middle_of_a_batch_does_not_skip_what_is_not_done(
    mp: Milepost, put: Put, stored: Stored
) -> None:
    """The model has the whole batch behind it, the ordinary handler has not: what it reports at
    the release must not be stored."""
    positions = put(4)
    model = Model()

    def ordinary(messages: list[RecordedMessage], tx: Connection) -> None:
        if any(message.position == positions[2] for message in messages):
            raise ValueError("not yet")

    made = mp.processor("balances", poll_seconds=0.05, retry=Retry(first_seconds=60))(ordinary)
    made.handler(model)
    with running(made):
        wait_until(lambda: stored() == positions[1])  # message by message, up to the bad one
    assert model.names[-1] == "released"
    assert stored() == positions[1]


def test_an_async_ordinary_handler_beside_a_plain_model(
    mp: Milepost, put: Put, stored: Stored, effects: Effects
) -> None:
    async def ordinary(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        for message in messages:
            await tx.execute(
                "insert into effects (transaction_id, position) values (%s, %s)",
                [message.position.transaction_id, message.position.position],
            )

    positions = put(4)
    model = Model()
    made = mp.processor("balances", delivery="exactly_once", poll_seconds=0.05)(model)
    made.handler(ordinary)
    with running(made):
        wait_until(lambda: stored() >= positions[-1])
    assert effects.positions() == model.positions() == positions


def test_at_least_once_mixes_too(mp: Milepost, put: Put, stored: Stored) -> None:
    seen: list[RecordedMessage] = []

    def ordinary(messages: list[RecordedMessage]) -> None:
        seen.extend(messages)

    positions = put(4)
    model = Model()
    made = mp.processor("balances", delivery="at_least_once", poll_seconds=0.05)(model)
    made.handler(ordinary)
    with running(made):
        wait_until(lambda: stored() >= positions[-1])
    assert [message.position for message in seen] == model.positions() == positions


def test_a_request_is_harmless(mp: Milepost, put: Put, stored: Stored, effects: Effects) -> None:
    positions = put(4)
    model = Model()
    with running(processor(mp, model)):
        wait_until(lambda: stored() >= positions[-1])
        model.trigger.request()
        model.trigger.request(positions[0])
        more = put(4)
        wait_until(lambda: stored() >= more[-1])
    assert effects.positions() == positions + more
