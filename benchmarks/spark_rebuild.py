"""Filling a pipeline's table anew from the whole log, on two cores, side by side with the same
projection as a processor in one process, which also writes exactly once."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from benchmarks.figure import Comparison, Figure
from benchmarks.rounds import alternate, per_second
from benchmarks.spark_log import TOTALS, fill, totals_pipeline
from benchmarks.spark_session import session
from milepost import Milepost, db
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.workbench import Workbench
    from milepost.db import Connection
    from milepost.records import RecordedMessage

_UNIT = "messages/s"
_BATCH = 1000
_TARGET = """
create table processor_totals (customer text primary key, cents bigint, orders bigint)
with (fillfactor = 70)
"""
_UPSERT = """
insert into processor_totals as t values (%s, %s, %s) on conflict (customer) do update
set cents = t.cents + excluded.cents, orders = t.orders + excluded.orders
"""


def measure(bench: Workbench) -> list[Comparison]:
    with bench.database() as url, session():
        number = fill(url, bench.choose(2_000_000, 50_000))
        with db.connect(url) as conn:
            conn.execute(_TARGET)
        runs = (bench.directory / f"rebuild-{n}" for n in count())
        # Its rate does not change on the way, and it would take minutes for all of them.
        part = bench.choose(200_000, 10_000)
        sides = {
            "ours": partial(_rebuild, url, runs, number),
            "processor": partial(_process, url, runs, number, part),
        }
        for side in sides.values():
            side(start=number - part // 10)
        measured = alternate(sides, rounds=bench.choose(3, 1))
    return [
        Comparison(
            "rebuild, 2 cores", f"processor in one process, batches of {_BATCH:,}", _UNIT,
            measured["ours"], measured["processor"],
        )
    ]  # fmt: skip


def _rebuild(url: str, runs: Iterator[Path], number: int, start: int = 0) -> float:
    pipeline = totals_pipeline(url, next(runs), TOTALS, start)
    return per_second(number - start, pipeline.rebuild)


def _process(
    url: str, runs: Iterator[Path], number: int, part: int, start: int | None = None
) -> float:
    first = number - part if start is None else start
    processor = Milepost(url).processor(
        next(runs).name, topics=["orders"], batch_size=_BATCH, start_from=Position(0, first)
    )(add_up)
    return per_second(number - first, lambda: processor.run(until="caught_up"))


def add_up(messages: list[RecordedMessage], tx: Connection) -> None:
    """Added up by customer first: fewer statements, all of them in one go."""
    cents: defaultdict[str, int] = defaultdict(int)
    orders: defaultdict[str, int] = defaultdict(int)
    for message in messages:
        cents[message.data["customer"]] += message.data["cents"]
        orders[message.data["customer"]] += 1
    with tx.cursor() as cursor:
        cursor.executemany(_UPSERT, [(who, cents[who], orders[who]) for who in cents])


FIGURE = Figure("spark_rebuild", "A rebuild, side by side with a processor", measure)
