"""What idle processors and workers cost the server: statements and transaction ids a second."""

from __future__ import annotations

import time
from threading import Event, Thread
from typing import TYPE_CHECKING

from benchmarks import sample
from benchmarks.figure import AtMost, Comparison, Figure
from milepost import Milepost, append, db
from milepost.db import one
from milepost.runtime import Group

if TYPE_CHECKING:
    from benchmarks.workbench import Workbench
    from milepost.db import Connection
    from milepost.records import RecordedMessage

# Every statement outside a transaction block is a transaction of its own, so that commits count
# them; the processors run alone in this database.
_COMMITS = """
select xact_commit + xact_rollback from pg_stat_database where datname = %s
"""
_XIDS = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
_PROCESSORS = 4
# In one process, with 20 connections.
_CROWD = 200
_WORKERS = 20
_STATEMENTS_TARGET = 20.0
_XIDS_TARGET = 2.0


def measure(bench: Workbench) -> list[Comparison]:
    return [*_measure_few(bench), *_measure_crowd(bench)]


def _measure_few(bench: Workbench) -> list[Comparison]:
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


def _measure_crowd(bench: Workbench) -> list[Comparison]:
    with bench.database() as url, bench.database() as elsewhere:
        mp = Milepost(url)
        for n in range(_CROWD):
            mp.processor(f"idle-{n}")(lambda *_: None)
        for n in range(_WORKERS):
            mp.worker(f"idle-{n}")(lambda _job: None)
        group = Group(mp.members())
        thread = Thread(target=group.run)
        thread.start()
        try:
            seconds = bench.choose(30, 5)
            with db.connect(elsewhere) as watching:
                time.sleep(bench.choose(30, 12))  # until all have started, and are counted
                began, xids = time.monotonic(), _number(watching, _XIDS)
                statements = [_rate(watching, url, seconds) for _ in range(2)]
                xid_rate = (_number(watching, _XIDS) - xids) / (time.monotonic() - began)
        finally:
            group.stop.set()
            thread.join()
    who = f"{_CROWD} idle processors and {_WORKERS} idle workers"
    target, limits = AtMost(1), [_STATEMENTS_TARGET] * len(statements)
    return [
        Comparison(
            f"statements a second of {who}",
            f"{_STATEMENTS_TARGET:g} a second",
            "1/s",
            statements,
            limits,
            target,
        ),
        Comparison(
            f"transaction ids a second of {who}",
            f"{_XIDS_TARGET:g} a second",
            "1/s",
            [xid_rate],
            [_XIDS_TARGET],
            target,
        ),
    ]


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


def _number(conn: Connection, query: str) -> int:
    return int(one(conn.execute(query.encode()).fetchone())[0])


def _database(url: str) -> str:
    with db.connect(url) as conn:
        return conn.info.dbname


FIGURE = Figure("processor_idle", "What idle processors and workers cost the server", measure)
