"""Draining jobs that do nothing: one worker process of ours, against the peers, each as its own
authors run it, and against ourselves where every channel has a limit.

Everyone has a fresh database that was filled, vacuumed and analysed before, and the server a
checkpoint behind it. Of a peer the time counts from the first job that begins to the last that
ends; of ours all of `run`, which is longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import queue_worker
from benchmarks.draining import UNIT, drain_peer, settle, works
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.peers import installed
from benchmarks.rounds import alternate
from milepost import db
from milepost.queue import put
from milepost.records import Job

if TYPE_CHECKING:
    from benchmarks.workbench import Workbench

_LIMITED_CHANNELS = 1_000
_LIMIT = """
insert into milepost.channels (name, max_concurrency)
select 'channel-' || number, %s from generate_series(0, %s) as number
"""


@dataclass(frozen=True, slots=True)
class _Ours:
    """`max_concurrency`: of each of so many channels; none without one."""

    handler: str = "async def"
    channels: int = 1
    max_concurrency: int | None = None

    def drain(self, bench: Workbench, count: int) -> float:
        with bench.database() as url:
            self._fill(url, count)
            settle(url)
            return count / queue_worker.drain(url, self.handler)

    def _fill(self, url: str, count: int) -> None:
        with db.connect(url) as conn:
            if self.max_concurrency is not None:
                conn.execute(_LIMIT, [self.max_concurrency, self.channels - 1])
            names = [f"channel-{number}" for number in range(self.channels)]
            put(conn, *(Job(names[seq % self.channels], {"seq": seq}) for seq in range(count)))


_ONE = "one channel"
_MANY = f"{_LIMITED_CHANNELS:,} channels"
_OURS = {
    _ONE: _Ours(),
    f"{_ONE}, a `def`": _Ours("def"),
    _MANY: _Ours(channels=_LIMITED_CHANNELS),
    f"{_MANY}, at most 10 each": _Ours(channels=_LIMITED_CHANNELS, max_concurrency=10),
    f"{_MANY}, at most 1 each": _Ours(channels=_LIMITED_CHANNELS, max_concurrency=1),
}
_TARGETS = {
    "pgqueuer": AtLeast(4),
    "awa-pg": AtLeast(2.5),
    "graphile-worker": AtLeast(2.5),
    f"{_MANY}, at most 10 each": AtLeast(0.6),
    f"{_MANY}, at most 1 each": AtLeast(0.5),
}


def measure(bench: Workbench) -> list[Comparison]:
    count = bench.choose(100_000, 5_000)
    peers = {peer.name: peer for peer in installed.peers() if works(bench, peer)}
    sides = {name: partial(ours.drain, bench, count) for name, ours in _OURS.items()} | {
        name: partial(drain_peer, bench, peer, count) for name, peer in peers.items()
    }
    measured = alternate(sides, rounds=bench.choose(3, 1))
    one = measured[_ONE]
    return [
        *(Comparison(_ONE, name, UNIT, one, measured[name], _TARGETS[name]) for name in peers),
        *(
            Comparison(name, _ONE, UNIT, measured[name], one, _TARGETS.get(name))
            for name in _OURS
            if name != _ONE
        ),
    ]


FIGURE = Figure(
    "queue_drain",
    "One worker process draining jobs that do nothing, against the peers and against limits",
    measure,
)
