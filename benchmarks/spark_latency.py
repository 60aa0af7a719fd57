"""From append to visible in the target, idle, one message at a time, against the least that a
micro-batch of Spark's costs.

Visible is when the server tells of it: a trigger on the target notifies, which is delivered as the
batch's transaction commits. Only one of the two runs at a time, in turns: an idle query polls.
"""

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from itertools import count
from statistics import median, quantiles
from threading import Event, Thread
from typing import TYPE_CHECKING

from benchmarks.figure import AtMost, Comparison, Figure
from benchmarks.rounds import alternate
from benchmarks.spark_floor import trigger_milliseconds
from benchmarks.spark_log import TOTALS, totals_pipeline
from benchmarks.spark_session import session
from milepost import Message, append, db

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from benchmarks.workbench import Workbench
    from milepost.db import Connection
    from milepost.pipeline.pipeline import Pipeline

_UNIT = "ms"
_TIMEOUT_SECONDS = 60
_WARM_UP = 30  # Java compiles what it meets often
_NOTIFY = """
create function tell() returns trigger language plpgsql as $$
begin
  perform pg_notify('visible', '');
  return null;
end;
$$;
create trigger tell after insert or update on totals__v1 for each statement execute function tell();
"""


def measure(bench: Workbench) -> list[Comparison]:
    with bench.database() as url, session() as spark, db.connect(url) as conn:
        pipeline = _begun(url, bench.directory / "latency", conn)
        places = (bench.directory / f"floor-{n}" for n in count())
        number = bench.choose(50, 5)
        rounds = _Rounds(pipeline, conn, spark, places, number)
        alternate({"ours": rounds.ours, "floor": rounds.floor}, rounds=bench.choose(5, 1))
    return [
        rounds.comparison("p50", median, AtMost(1.5)),
        rounds.comparison("p90", lambda times: quantiles(times, n=10)[8], None),
    ]


class _Rounds:
    """Every time that was measured, round by round, for more than one summary of it."""

    def __init__(
        self, pipeline: Pipeline, conn: Connection, spark: SparkSession, places: Iterator[Path],
        number: int,
    ) -> None:  # fmt: skip
        self._pipeline, self._conn, self._spark = pipeline, conn, spark
        self._places, self._number = places, number
        self._ours: list[list[float]] = []
        self._floor: list[list[float]] = []

    def ours(self) -> float:
        with _running(self._pipeline):
            times = [_append_to_visible(self._conn) for _ in range(_WARM_UP + self._number)]
        self._ours.append(times[_WARM_UP:])
        return median(self._ours[-1])

    def floor(self) -> float:
        self._floor.append(trigger_milliseconds(self._spark, next(self._places), self._number))
        return median(self._floor[-1])

    def comparison(
        self, name: str, summary: Callable[[Sequence[float]], float], target: AtMost | None
    ) -> Comparison:
        ours = [summary(times) for times in self._ours]
        floor = [summary(times) for times in self._floor]
        return Comparison(
            f"append to visible, {name}", "rate to noop, trigger", _UNIT, ours, floor, target
        )


def _begun(url: str, directory: Path, conn: Connection) -> Pipeline:
    """A pipeline whose target is there, and tells."""
    pipeline = totals_pipeline(url, directory, TOTALS)
    append(conn, _order())
    pipeline.run(until="caught_up")
    conn.execute(_NOTIFY)
    conn.execute("listen visible")
    return pipeline


@contextmanager
def _running(pipeline: Pipeline) -> Iterator[None]:
    stop = Event()
    thread = Thread(target=lambda: pipeline.run(stop=stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _append_to_visible(conn: Connection) -> float:
    # At any moment of the watcher's polling.
    time.sleep(random.uniform(0.5, 0.6))
    began = time.perf_counter()
    append(conn, _order())
    if not list(conn.notifies(timeout=_TIMEOUT_SECONDS, stop_after=1)):
        raise RuntimeError(f"not visible within {_TIMEOUT_SECONDS} s")
    return (time.perf_counter() - began) * 1000


def _order() -> Message:
    customer = f"customer-{random.randrange(100)}"
    return Message("OrderPlaced", {"customer": customer, "cents": 100}, topic="orders")


FIGURE = Figure("spark_latency", "From append to visible, idle, one message at a time", measure)
