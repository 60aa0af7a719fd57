"""What segments cost: the same processor with and without, a handler that does nothing, one
instance."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from benchmarks import sample
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.processor import do_nothing
from benchmarks.rounds import alternate, per_second
from milepost import Milepost, append, db

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.workbench import Workbench

_BATCH = 500
_UNIT = "messages/s"


def measure(bench: Workbench) -> list[Comparison]:
    number = bench.choose(100_000, 5_000)
    with bench.database() as url:
        with db.connect(url) as conn:
            append(conn, *sample.orders(number))
            conn.execute("vacuum analyze milepost.messages")
        names = (f"overhead-{n}" for n in count())
        sides = {n: partial(_process, url, names, number, n) for n in (None, 1, 8, 32)}
        measured = alternate(sides, rounds=bench.choose(5, 2))
    return [
        Comparison(
            f"{n} segments in one instance, batches of {_BATCH}", "no segments", _UNIT,
            measured[n], measured[None], AtLeast(0.6) if n == 8 else None,
        )
        for n in (1, 8, 32)
    ]  # fmt: skip


def _process(url: str, names: Iterator[str], number: int, segments: int | None) -> float:
    """From the beginning to `number`, as a processor that has never run."""
    mp = Milepost(url)
    processor = mp.processor(next(names), batch_size=_BATCH, segments=segments)(do_nothing)
    return per_second(number, lambda: processor.run(until="caught_up"))


FIGURE = Figure("segments_overhead", "Segments, against the same processor without", measure)
