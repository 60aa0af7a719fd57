"""How long something takes to arrive: the parts that the figures of latency have in common."""

from __future__ import annotations

import time
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

import psycopg

from benchmarks.figure import AtMost, Comparison

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import LiteralString

_UNIT = "ms"


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


@contextmanager
def listening(url: str, statement: LiteralString, arrival: Arrival) -> Iterator[None]:
    """The least that anyone can do who is woken by NOTIFY on the channel `bare`: one statement."""
    stop = Event()
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("listen bare")

        def listen() -> None:
            while not stop.is_set():
                if list(conn.notifies(timeout=0.2, stop_after=1)):
                    conn.execute(statement).fetchall()
                    arrival.tell()

        with running(listen, stop):
            yield


@contextmanager
def running(work: Callable[[], object], stop: Event) -> Iterator[None]:
    """In a thread of its own, until the end of the block sets `stop`."""
    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def comparison(
    name: str,
    against: str,
    rounds: Sequence[Sequence[tuple[float, float]]],
    summary: Callable[[list[float]], float],
    target: AtMost | None,
) -> Comparison:
    """Of rounds of pairs: ours, and the baseline's, measured one right after the other."""
    ours = [summary([pair[0] for pair in pairs]) for pairs in rounds]
    bare = [summary([pair[1] for pair in pairs]) for pairs in rounds]
    return Comparison(name, against, _UNIT, ours, bare, target)
