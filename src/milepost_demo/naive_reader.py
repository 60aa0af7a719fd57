"""For comparison: a reader that reads every visible row, without a horizon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

from milepost import db
from milepost.app import Milepost
from milepost.db import Connection
from milepost.records import Position
from milepost_demo.background import in_background
from milepost_demo.tally import Tally

POLL_SECONDS = 0.01


@contextmanager
def naive_reader(mp: Milepost) -> Iterator[Callable[[], Tally]]:
    """Reads to max(position) until the function is called, then once more, so that what is missing
    at the end is lost and not only late."""
    stopping = Event()
    reading = in_background(lambda: _read_until(stopping, mp), "naive reader")

    def finish() -> Tally:
        stopping.set()
        return reading.result()

    try:
        yield finish
    finally:
        stopping.set()


def _read_until(stopping: Event, mp: Milepost) -> Tally:
    tally = Tally()
    with mp.connect() as conn:
        while not stopping.wait(POLL_SECONDS):
            _read(conn, mp.schema, tally)
        _read(conn, mp.schema, tally)
    return tally


def _read(conn: Connection, schema: str, tally: Tally) -> None:
    after = {"transaction_id": tally.last.transaction_id, "position": tally.last.position}
    rows = db.fetch_all(conn, schema, "demo_naive_read", **after)
    for id_, transaction_id, position, data in rows:
        tally.see(id_, Position(transaction_id, position), data)
