"""How work grows with instances: 1, 2 and 4 processes over 8 segments, each handling two segments
at once with a handler that waits 1 ms a message."""

from __future__ import annotations

import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate
from benchmarks.segments_instance import TABLE, started, wait_for_done
from milepost import Message, append, db
from milepost.records import key_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.workbench import Workbench

_SEGMENTS, _CONCURRENCY, _WAIT_SECONDS = 8, 2, 0.001


def measure(bench: Workbench) -> list[Comparison]:
    number = bench.choose(16_000, 1_600)
    names = (f"scaling-{n}" for n in count())
    with bench.database() as url:
        with db.connect(url) as conn:
            conn.execute(TABLE)
        sides = {n: partial(_rate, url, names, number, n) for n in (1, 2, 4)}
        measured = alternate(sides, rounds=bench.choose(3, 1))
    return [
        Comparison(
            f"{n} instances over {_SEGMENTS} segments", f"{n} times one instance", "messages/s",
            measured[n], [n * one for one in measured[1]], AtLeast(0.85),
        )
        for n in (2, 4)
    ]  # fmt: skip


def _keys(number: int) -> Iterator[str]:
    """As many of each segment: what is measured is sharing, not the luck of a hash."""
    left = dict.fromkeys(range(_SEGMENTS), number // _SEGMENTS)
    for key in map(str, count()):
        segment = key_hash(key) % _SEGMENTS
        if left[segment]:
            left[segment] -= 1
            yield key
        if not any(left.values()):
            return


def _rate(url: str, names: Iterator[str], number: int, instances: int) -> float:
    """From the moment in which messages appear to the last one handled, by instances that share
    the segments already."""
    with db.connect(url) as conn:
        conn.execute("truncate done, milepost.messages")
        with started(url, next(names), instances, _SEGMENTS, _CONCURRENCY, _WAIT_SECONDS):
            append(conn, *(Message("Made", {}, key=key) for key in _keys(number)))
            began = time.time()
            return number / (wait_for_done(conn, number) - began)


FIGURE = Figure("segments_scaling", "Instances that share a processor, against one", measure)
