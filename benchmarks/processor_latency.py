"""From append to handled on an idle system, one message at a time, against the bare minimum: a
NOTIFY that is answered with one SELECT."""

from __future__ import annotations

import time
from contextlib import contextmanager
from statistics import median, quantiles
from threading import Event, Thread
from typing import TYPE_CHECKING

import psycopg

from benchmarks.figure import AtMost, Comparison, Figure
from milepost import Message, Milepost, append, db

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.workbench import Workbench
    from milepost.db import Connection
    from milepost.records import RecordedMessage

_UNIT = "ms"
_NEWEST = """
select type, data, key, topic, metadata, id, transaction_id, "position", recorded_at
from bare.messages order by transaction_id desc, "position" desc limit 1
"""
_INSERT = "insert into bare.messages (type, data) values ('Ping', '{}')"


class Arrival:
    """When something arrived, as told by another thread."""

    def __init__(self) -> None:
        self._has_come = Event()
        self._at = 0.0

    def tell(self) -> None:
        self._at = time.perf_counter()
        self._has_come.set()

    def milliseconds_after(self, send: Callable[[], object]) -> float:
        self._has_come.clear()
        began = time.perf_counter()
        send()
        if not self._has_come.wait(10):
            raise RuntimeError("nothing arrived within 10 s")
        return (self._at - began) * 1000


def measure(bench: Workbench) -> list[Comparison]:
    with bench.database() as url, db.connect(url) as conn:
        conn.execute("select pg_notify('bare', '')")
        handled, selected = Arrival(), Arrival()
        with _processor(url, handled), _listener(url, selected):
            for _ in range(20):
                _pair(conn, handled, selected)
            rounds = [
                [_pair(conn, handled, selected) for _ in range(bench.choose(100, 10))]
                for _ in range(bench.choose(7, 2))
            ]
    return [
        _comparison("p50", rounds, median, AtMost(3)),
        _comparison("p99", rounds, lambda times: quantiles(times, n=100)[98], None),
    ]


def _pair(conn: Connection, handled: Arrival, selected: Arrival) -> tuple[float, float]:
    return (
        handled.milliseconds_after(lambda: append(conn, Message("Ping", {}))),
        selected.milliseconds_after(lambda: _notify(conn)),
    )


def _notify(conn: Connection) -> None:
    with conn.transaction():
        conn.execute(_INSERT)
        conn.execute("select pg_notify('bare', '')")


def _comparison(
    name: str,
    rounds: list[list[tuple[float, float]]],
    summary: Callable[[list[float]], float],
    target: AtMost | None,
) -> Comparison:
    ours = [summary([pair[0] for pair in pairs]) for pairs in rounds]
    bare = [summary([pair[1] for pair in pairs]) for pairs in rounds]
    return Comparison(
        f"append to handled, {name}", "NOTIFY and one SELECT", _UNIT, ours, bare, target
    )


@contextmanager
def _processor(url: str, handled: Arrival) -> Iterator[None]:
    mp = Milepost(url)

    @mp.processor("latency", start_from="end")
    def note(messages: list[RecordedMessage], tx: Connection) -> None:
        handled.tell()

    stop = Event()
    thread = Thread(target=lambda: note.run(stop=stop))
    thread.start()
    try:
        _until(lambda: note.position() is not None)
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def _listener(url: str, selected: Arrival) -> Iterator[None]:
    stop = Event()
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("listen bare")

        def listen() -> None:
            while not stop.is_set():
                if list(conn.notifies(timeout=0.2, stop_after=1)):
                    conn.execute(_NEWEST).fetchall()
                    selected.tell()

        thread = Thread(target=listen)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


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
