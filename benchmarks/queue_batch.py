"""What batching handlers save: one upsert a job, a hundred jobs in a transaction, against one job
in a transaction."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.draining import UNIT, drain_ours
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate

if TYPE_CHECKING:
    from benchmarks.workbench import Workbench

_PAIRS = {"batch upsert": "upsert", "async batch upsert": "async upsert"}


def measure(bench: Workbench) -> list[Comparison]:
    count = bench.choose(10_000, 1_000)
    names = [*_PAIRS, *_PAIRS.values()]
    sides = {name: partial(drain_ours, bench, name, count) for name in names}
    measured = alternate(sides, rounds=bench.choose(3, 1))
    return [
        Comparison(batch, single, UNIT, measured[batch], measured[single], AtLeast(3))
        for batch, single in _PAIRS.items()
    ]


FIGURE = Figure(
    "queue_batch", "Batching handlers with one upsert a job, against one by one", measure
)
