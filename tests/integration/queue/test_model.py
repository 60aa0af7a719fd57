"""Any sequence of steps does to the queue what it does to its model."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from milepost.db import Connection
from tests.integration.queue.machine import Queue
from tests.integration.queue.sabotage import take_out
from tests.models import look_for_a_fault, run_model

POLICIES = ("change_policy", "change_family", "unset_policy")
EXAMPLES = 100
ROUNDS = 50
ROUND = 12  # with these seeds, 76 examples find what 148 find in rounds of 6


def machine_of(conn: Connection, left_out: Sequence[str] = ()) -> type[Queue]:
    return type("BoundQueue", (Queue,), {"conn": conn, **dict.fromkeys(left_out)})


def test_the_queue_does_what_its_model_does(conn: Connection) -> None:
    run_model(machine_of(conn), EXAMPLES)


@pytest.mark.parametrize(
    ("guard", "left_out"),
    [
        ("state that stays", ()),
        ("end of failures", (*POLICIES, "cancel", "cancel_running", "complete")),
        ("suspects alone", (*POLICIES, "cancel", "cancel_running", "defer", "fail")),
        ("token", (*POLICIES, "cancel", "cancel_running", "defer", "fail", "give_back")),
        ("rate spent", ("cancel", "cancel_running", "complete", "defer", "give_back")),
    ],
)
def test_the_model_notices_a_queue_that_is_broken(
    conn: Connection, guard: str, left_out: Sequence[str]
) -> None:
    """Without steps that only keep jobs from coming to the guard: it would take much longer."""
    take_out(conn, guard)
    with pytest.raises(AssertionError):
        look_for_a_fault(machine_of(conn, left_out), ROUNDS, ROUND)
