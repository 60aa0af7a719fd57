"""What OpenTelemetry costs: processes with it on, and with it installed only, against processes
without it.

Each of them does the least that there is to do, so that the share of OpenTelemetry is the largest.
Of messages and jobs that belong to a trace, each has one of its own, so that a batch has as many
links as possible.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks import sample
from benchmarks.draining import settle
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate
from benchmarks.traces_side import BATCH, Side, Work, run
from milepost import Job, append, db, put
from milepost.records import Message

if TYPE_CHECKING:
    from benchmarks.workbench import Workbench

_SIDES: tuple[Side, ...] = ("absent", "idle", "on")
_LEAST = AtLeast(0.98)
_TRACE_JOBS = """
update milepost.jobs
set trace = '00-' || md5(id::text) || '-' || left(md5('span' || id::text), 16) || '-01'
"""


def measure(bench: Workbench) -> list[Comparison]:
    appended = _alternate(bench, "append", bench.choose(1_000, 500), rounds=bench.choose(15, 1))
    with bench.database() as url, bench.database() as traced_url:
        number = bench.choose(40_000, 5_000)
        _fill(url, number, are_traced=False)
        _fill(traced_url, number, are_traced=True)
        rounds = bench.choose(9, 1)
        processed = _processing(url, number, rounds)
        traced = _processing(traced_url, number, rounds)
    jobs, rounds = bench.choose(20_000, 2_000), bench.choose(7, 1)
    drained = _draining(bench, jobs, rounds, are_traced=False)
    drained_traced = _draining(bench, jobs, rounds, are_traced=True)
    batches = f"a processor, batches of {BATCH}"
    return [
        *_comparisons("appending one message, in a span", appended, "messages/s", _LEAST),
        *_comparisons(f"{batches}, no traces", processed, "messages/s", _LEAST),
        *_comparisons(f"{batches}, each message of a trace", traced, "messages/s", _LEAST),
        *_comparisons("draining jobs, no traces", drained, "jobs/s", _LEAST),
        *_comparisons("draining jobs, each of a trace", drained_traced, "jobs/s", None),
    ]


def _alternate(bench: Workbench, work: Work, number: int, rounds: int) -> dict[Side, list[float]]:
    with bench.database() as url:
        return alternate({side: partial(run, side, work, url, number) for side in _SIDES}, rounds)


def _processing(url: str, number: int, rounds: int) -> dict[Side, list[float]]:
    def side(name: Side) -> float:
        return run(name, "process", url, number)

    return alternate({name: partial(side, name) for name in _SIDES}, rounds)


def _draining(
    bench: Workbench, number: int, rounds: int, *, are_traced: bool
) -> dict[Side, list[float]]:
    def side(name: Side) -> float:
        with bench.database() as url:
            with db.connect(url) as conn:
                put(conn, *(Job("work", {"seq": seq}) for seq in range(number)))
                if are_traced:
                    conn.execute(_TRACE_JOBS)
            settle(url)
            return run(name, "drain", url, number)

    return alternate({name: partial(side, name) for name in _SIDES}, rounds)


def _fill(url: str, number: int, *, are_traced: bool) -> None:
    messages = sample.orders(number)
    with db.connect(url) as conn:
        append(conn, *(map(_traced, messages) if are_traced else messages))
        conn.execute("vacuum analyze milepost.messages")


def _traced(message: Message) -> Message:
    parent = f"00-{uuid4().hex}-{uuid4().hex[:16]}-01"
    return Message(message.type, message.data, key=message.key, metadata={"traceparent": parent})


def _comparisons(
    name: str, measured: dict[Side, list[float]], unit: str, target: AtLeast | None
) -> list[Comparison]:
    absent = measured["absent"]
    return [
        Comparison(f"{name}, tracing on", "not installed", unit, measured["on"], absent, target),
        Comparison(
            f"{name}, installed only", "not installed", unit, measured["idle"], absent, None
        ),
    ]


FIGURE = Figure("traces", "OpenTelemetry on, and installed only, against without it", measure)
