"""Any sequence of steps does to the queue what it does to its model. The same sequences every time,
so that the suite is the same for everybody; MILEPOST_MODEL_EXAMPLES=2000 tries so many others."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from milepost.db import Connection
from tests.integration.queue.machine import Queue
from tests.integration.queue.sabotage import take_out

GIVEN = os.environ.get("MILEPOST_MODEL_EXAMPLES")
EXAMPLES = int(GIVEN or 100)


def run_model(conn: Connection, examples: int, phases: tuple[Phase, ...]) -> None:
    machine = type("BoundQueue", (Queue,), {"conn": conn})
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


@pytest.mark.parametrize("guard", ["state that stays", "end of failures", "token"])
def test_the_model_notices_a_queue_that_is_broken(conn: Connection, guard: str) -> None:
    take_out(conn, guard)
    with pytest.raises(AssertionError):
        run_model(conn, 500, (Phase.generate,))
