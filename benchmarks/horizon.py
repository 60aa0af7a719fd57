"""What asking for the horizon costs, in round trips: a reader does it once a batch.

The log has never been analysed, which is when a plan is most likely to be a bad one.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from benchmarks import sample
from benchmarks.figure import AtMost, Comparison, Figure
from milepost import Message, append, db

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.workbench import Workbench
    from milepost.db import Connection

_IDLE = 100
_APPENDERS = 20
_UNIT = "µs"
_HORIZON = "select transaction_id, position from milepost.horizon()"
Call: TypeAlias = "Callable[[], object]"


def measure(bench: Workbench) -> list[Comparison]:
    with bench.database() as url, db.connect(url) as conn:
        conn.execute("alter table milepost.messages set (autovacuum_enabled = off)")
        append(conn, *sample.orders(bench.choose(100_000, 10_000)))
        alone = _compare(bench, conn, "0 idle, 0 appenders", None)
        with ExitStack() as crowd:
            for _ in range(_IDLE):
                crowd.enter_context(db.connect(url))
            for _ in range(_APPENDERS):
                _open_appender(crowd, url)
            name = f"{_IDLE} idle, {_APPENDERS} appenders"
            return [*_compare(bench, conn, name, AtMost(5)), *alone]


def _open_appender(crowd: ExitStack, url: str) -> None:
    conn = crowd.enter_context(db.connect(url))
    crowd.enter_context(conn.transaction(force_rollback=True))
    append(conn, Message("Open", {}))


def _compare(
    bench: Workbench, conn: Connection, crowd: str, target: AtMost | None
) -> list[Comparison]:
    def one() -> object:
        return conn.execute("select 1", prepare=True).fetchone()

    def horizon() -> object:
        return conn.execute(_HORIZON, prepare=True).fetchone()

    in_turn = partial(_microseconds, bench, in_turn=True)
    in_a_row = partial(_microseconds, bench, in_turn=False)
    return [
        Comparison(f"in turn, {crowd}", "select 1", _UNIT, *in_turn(horizon, one), target),
        Comparison(f"in a row, {crowd}", "select 1", _UNIT, *in_a_row(horizon, one), target),
    ]


def _microseconds(
    bench: Workbench, ours: Call, baseline: Call, *, in_turn: bool
) -> tuple[list[float], list[float]]:
    """Each round the median of many calls: of both in turn, as a reader mixes its statements, or
    of one after those of the other, when `select 1` finds everything in the caches."""
    calls = bench.choose(300, 100)
    plans = [[ours, baseline] * calls] if in_turn else [[ours] * calls, [baseline] * calls]
    rounds = [[_medians(plan) for plan in plans] for _ in range(bench.choose(15, 2))]
    taken = [{call: us for medians in round_ for call, us in medians.items()} for round_ in rounds]
    return [medians[ours] for medians in taken], [medians[baseline] for medians in taken]


def _medians(plan: Sequence[Call]) -> dict[Call, float]:
    taken: dict[Call, list[float]] = {call: [] for call in plan}
    for call in plan:
        began = time.perf_counter()
        call()
        taken[call].append(time.perf_counter() - began)
    return {call: median(times) * 1_000_000 for call, times in taken.items()}


FIGURE = Figure(
    "horizon",
    "horizon() in a session, against `select 1` in the same session",
    measure,
)
