"""What an idle processor costs the server: statements a second, against one poll a second."""

from __future__ import annotations

import time
from threading import Event, Thread
from typing import TYPE_CHECKING

from benchmarks import sample
from benchmarks.figure import AtMost, Comparison, Figure
from milepost import Milepost, append, db
from milepost.db import one

if TYPE_CHECKING:
    from benchmarks.workbench import Workbench
    from milepost.db import Connection
    from milepost.records import RecordedMessage

# Every statement outside a transaction block is a transaction of its own, so that commits count
# them; the processors run alone in this database.
_COMMITS = """
select xact_commit + xact_rollback from pg_stat_database where datname = %s
"""
_PROCESSORS = 4


def measure(bench: Workbench) -> list[Comparison]:
    with bench.database() as url, bench.database() as elsewhere:
        with db.connect(url) as conn:
            append(conn, *sample.orders(100))
        mp, stop = Milepost(url), Event()
        threads = [_start(mp, f"idle-{n}", stop) for n in range(_PROCESSORS)]
        try:
            seconds = bench.choose(30, 5)
            with db.connect(elsewhere) as watching:
                _settle(bench)
                rates = [_rate(watching, url, seconds) / _PROCESSORS for _ in range(2)]
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    name = f"statements a second of an idle processor ({_PROCESSORS} ran)"
    return [Comparison(name, "one poll a second", "1/s", rates, [1.0] * len(rates), AtMost(2))]


def _start(mp: Milepost, name: str, stop: Event) -> Thread:
    @mp.processor(name, topics=["orders"])
    def handle(messages: list[RecordedMessage], tx: Connection) -> None:
        """Nothing."""

    thread = Thread(target=lambda: handle.run(stop=stop))
    thread.start()
    return thread


def _settle(bench: Workbench) -> None:
    time.sleep(bench.choose(5, 2))


def _rate(watching: Connection, url: str, seconds: float) -> float:
    """Asked from another database, so as not to count the asking."""
    name = _database(url)
    before, began = _commits(watching, name), time.monotonic()
    time.sleep(seconds)
    return (_commits(watching, name) - before) / (time.monotonic() - began)


def _commits(conn: Connection, database: str) -> int:
    conn.execute("select pg_stat_clear_snapshot()")
    return int(one(conn.execute(_COMMITS, [database]).fetchone())[0])


def _database(url: str) -> str:
    with db.connect(url) as conn:
        return conn.info.dbname


FIGURE = Figure("processor_idle", "What an idle processor costs the server", measure)
