"""Any sequence of steps does to the queue what it does to its model. The same sequences every time,
so that the suite is the same for everybody; MILEPOST_MODEL_EXAMPLES=2000 tries so many others."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from milepost.db import Connection
from tests.integration.queue.machine import Queue
from tests.integration.queue.sabotage import take_out

POLICIES = ("change_policy", "change_family", "unset_policy")
GIVEN = os.environ.get("MILEPOST_MODEL_EXAMPLES")
EXAMPLES = int(GIVEN or 100)


def run_model(
    conn: Connection, examples: int, phases: tuple[Phase, ...], left_out: Sequence[str] = ()
) -> None:
    machine = type("BoundQueue", (Queue,), {"conn": conn, **dict.fromkeys(left_out)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            derandomize=GIVEN is None,
            database=None,
            report_multiple_bugs=False,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_queue_does_what_its_model_does(conn: Connection) -> None:
    run_model(conn, EXAMPLES, (Phase.explicit, Phase.generate, Phase.shrink))


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
        run_model(conn, 500, (Phase.generate,), left_out)
