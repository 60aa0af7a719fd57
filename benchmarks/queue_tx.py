"""Draining jobs with one upsert each. Ours is in the transaction that completes the job, one by
one and in batches; graphile-worker and procrastinate do it as their documents say: a statement of
its own, beside the completion, so that a crash between the two does it twice."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.draining import UNIT, drain_ours, drain_peer, works
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.peers import installed
from benchmarks.rounds import alternate

if TYPE_CHECKING:
    from benchmarks.workbench import Workbench

_OURS = "upsert"
_TARGETS = {"procrastinate": AtLeast(1)}


def measure(bench: Workbench) -> list[Comparison]:
    count = bench.choose(10_000, 1_000)
    peers = {peer.name: peer for peer in installed.upserting() if works(bench, peer)}
    ours = [_OURS, "async upsert"]
    sides = {name: partial(drain_ours, bench, name, count) for name in ours} | {
        name: partial(drain_peer, bench, peer, count) for name, peer in peers.items()
    }
    measured = alternate(sides, rounds=bench.choose(3, 1))
    return [
        Comparison(own, name, UNIT, measured[own], measured[name], _TARGETS.get(name))
        for own in ours
        for name in peers
    ]


FIGURE = Figure("queue_tx", "One worker process draining jobs with one upsert each", measure)
