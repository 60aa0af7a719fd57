"""From append to handled on an idle system, one message at a time, against the bare minimum: a
NOTIFY that is answered with one SELECT."""

from __future__ import annotations

import time
from contextlib import contextmanager
from statistics import median, quantiles
from threading import Event
from typing import TYPE_CHECKING

from benchmarks.figure import AtMost, Comparison, Figure
from benchmarks.latency import Arrival, comparison, listening, running
from milepost import Message, Milepost, append, db

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.workbench import Workbench
    from milepost.db import Connection
    from milepost.records import RecordedMessage

_NEWEST = """
select type, data, key, topic, metadata, id, transaction_id, "position", recorded_at
from bare.messages order by transaction_id desc, "position" desc limit 1
"""
_INSERT = "insert into bare.messages (type, data) values ('Ping', '{}')"


def measure(bench: Workbench) -> list[Comparison]:
    with bench.database() as url, db.connect(url) as conn:
        conn.execute("select pg_notify('bare', '')")
        handled, selected = Arrival(), Arrival()
        with _processor(url, handled), listening(url, _NEWEST, selected):
            for _ in range(20):
                _pair(conn, handled, selected)
            rounds = [
                [_pair(conn, handled, selected) for _ in range(bench.choose(100, 10))]
                for _ in range(bench.choose(7, 2))
            ]
    against = "NOTIFY and one SELECT"
    return [
        comparison("append to handled, p50", against, rounds, median, AtMost(3)),
        comparison("append to handled, p99", against, rounds, _p99, None),
    ]


def _p99(times: list[float]) -> float:
    return quantiles(times, n=100)[98]


def _pair(conn: Connection, handled: Arrival, selected: Arrival) -> tuple[float, float]:
    return (
        handled.milliseconds_after(lambda: append(conn, Message("Ping", {}))),
        selected.milliseconds_after(lambda: _notify(conn)),
    )


def _notify(conn: Connection) -> None:
    with conn.transaction():
        conn.execute(_INSERT)
        conn.execute("select pg_notify('bare', '')")


@contextmanager
def _processor(url: str, handled: Arrival) -> Iterator[None]:
    mp = Milepost(url)

    @mp.processor("latency", start_from="end")
    def note(messages: list[RecordedMessage], tx: Connection) -> None:
        handled.tell()

    stop = Event()
    with running(lambda: note.run(stop=stop), stop):
        _until(lambda: note.position() is not None)
        yield


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("the processor did not start within 10 s")
        time.sleep(0.01)


FIGURE = Figure(
    "processor_latency",
    "From append to handled, idle, one message at a time",
    measure,
)
