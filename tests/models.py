"""State machines of hypothesis that compare what we do with a model. The same examples every time,
so that the suite is the same for everybody; MILEPOST_MODEL_EXAMPLES=2000 tries so many others."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

GIVEN = os.environ.get("MILEPOST_MODEL_EXAMPLES")
STEPS = 40
ROUND = 6


def run_model(machine: type[RuleBasedStateMachine], examples: int) -> None:
    """So many examples, or as many as were asked for; what fails is shrunk."""
    phases = (Phase.explicit, Phase.generate, Phase.shrink)
    _run(machine, int(GIVEN or examples), phases=phases, derandomize=GIVEN is None)


def look_for_a_fault(
    machine: type[RuleBasedStateMachine], rounds: int, examples: int = ROUND
) -> None:
    """For one that is there: as soon as an example fails, this does.

    In short rounds, each with its own seed: a long run begins with small examples, a tenth of all
    that it may try, and these find little.
    """
    for number in range(rounds):
        seeded = seed(number)(machine) if GIVEN is None else machine
        _run(seeded, examples, phases=(Phase.generate,))


def _run(machine: type[RuleBasedStateMachine], examples: int, **options: Any) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            **options,
        ),
    )
