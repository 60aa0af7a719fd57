"""What operators see: how far the handlers are, beside how far their work is durable."""

from __future__ import annotations

import json
from typing import Any

from milepost import Milepost, Position
from milepost.db import Connection
from milepost.processors import Processor
from tests.integration.cli.command import Cli
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import leave_all, running
from tests.integration.processors.self_checkpointing.conftest import Stored
from tests.integration.processors.self_checkpointing.models import Model, nothing
from tests.waiting import wait_until


def deferred(mp: Milepost, model: Model) -> Processor:
    return mp.processor("balances", delivery="at_least_once", segments=4, poll_seconds=0.05)(model)


def listed(url: str, name: str = "balances") -> dict[str, Any]:
    found = json.loads(Cli(url).run("processors", "--json").stdout)
    (status,) = (each for each in found if each["name"] == name)
    return dict(status)


def test_what_was_handled_is_shown_beside_what_is_durable(
    mp: Milepost, url: str, put: Put, stored: Stored
) -> None:
    """It looked stuck before: nothing moves until the handler asks for it."""
    model = Model(at_release=nothing)
    with running(deferred(mp, model)):
        positions = put(10)
        model.wait_for(10)
        wait_until(lambda: listed(url)["unhandled_messages"] == 0)
        status = listed(url)
        assert Position.parse(status["handled_position"]) >= positions[-1]
        assert (status["position"], status["lag_messages"]) == ("0:0", 10)
        shown = Cli(url).run("processors").stdout
        assert f"handled up to {status['handled_position']}, durable up to 0:0" in shown
        for trigger in model.all_triggers:
            trigger.request()
        wait_until(lambda: listed(url)["lag_messages"] == 0)


def test_what_was_handled_and_not_durable_is_to_be_handled_again_after_a_release(
    mp: Milepost, url: str, put: Put
) -> None:
    model = Model(at_release=nothing)
    with running(deferred(mp, model)):
        put(10)
        model.wait_for(10)
        wait_until(lambda: listed(url)["unhandled_messages"] == 0)
    status = listed(url)
    assert (status["handled_position"], status["unhandled_messages"]) == ("0:0", 10)


def test_each_segment_counts_for_itself(mp: Milepost, url: str, put: Put) -> None:
    put(10)
    deferred(mp, Model()).run(until="caught_up")
    put(5)
    status = listed(url)
    assert (status["lag_messages"], status["unhandled_messages"]) == (5, 5)


def test_with_an_ordinary_handler_both_are_the_same(
    mp: Milepost, url: str, put: Put, effects: object, stored: Stored
) -> None:
    made = mp.processor("balances", poll_seconds=0.05)(leave_all)
    made.handler(Model())
    put(4)
    made.run(until="caught_up")
    status = listed(url)
    assert status["handled_position"] == status["position"]
    assert status["unhandled_messages"] == 0


def test_an_ordinary_processor_has_only_its_checkpoint(
    mp: Milepost, url: str, conn: Connection, put: Put, effects: object
) -> None:
    put(4)
    mp.processor("plain")(leave_all).run(until="caught_up")
    status = listed(url, "plain")
    assert (status["handled_position"], status["unhandled_messages"]) == (None, None)
    assert "handled up to" not in Cli(url).run("processors").stdout
