"""What a task costs: a worker process that drains tasks which do nothing, against a plain worker
whose handler does nothing, and does not even look at its job."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.draining import UNIT, drain_ours
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate

if TYPE_CHECKING:
    from benchmarks.workbench import Workbench

_PAIRS = {"async task": "async def", "task": "def"}


def measure(bench: Workbench) -> list[Comparison]:
    count = bench.choose(100_000, 5_000)
    names = [*_PAIRS, *_PAIRS.values()]
    sides = {name: partial(drain_ours, bench, name, count) for name in names}
    measured = alternate(sides, rounds=bench.choose(5, 1))
    return [
        Comparison(task, plain, UNIT, measured[task], measured[plain], AtLeast(0.8))
        for task, plain in _PAIRS.items()
    ]


FIGURE = Figure("queue_tasks", "One worker process draining tasks, against a plain worker", measure)
