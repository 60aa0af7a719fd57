"""Hundreds of idle processors and workers in one process need few connections and statements."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from milepost import Job, Message, Milepost, RecordedMessage, TakenJob
from milepost.db import Connection, one
from milepost.errors import BudgetTooSmall
from milepost.runtime import Group
from milepost.sql import LogOrder
from tests.waiting import wait_until

PROCESSORS = 200
WORKERS = 20
CONNECTIONS = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name like 'milepost _%'
"""
# Transactions of this database; each statement of an idle process is one.
TRANSACTIONS = """
select xact_commit + xact_rollback from pg_stat_database where datname = current_database()
"""
XIDS = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
SECONDS = 6.0


@pytest.fixture
def order() -> LogOrder:
    return "append"


def counted(conn: Connection, query: str) -> int:
    return int(one(conn.execute(query.encode()).fetchone())[0])


def note(seen: dict[str, int], name: str, messages: list[RecordedMessage], tx: Connection) -> None:
    seen[name] = seen.get(name, 0) + len(messages)


@pytest.mark.soak  # watches for seconds what happens while nothing happens
@pytest.mark.timeout(300)
def test_two_hundred_idle_processors_and_twenty_workers(mp: Milepost, conn: Connection) -> None:
    seen: dict[str, int] = {}
    done: list[TakenJob] = []
    for n in range(PROCESSORS):
        mp.processor(f"p{n}")(partial(note, seen, f"p{n}"))
    for n in range(WORKERS):
        mp.worker(f"w{n}")(lambda job: done.append(job))
    group = Group(mp.members())
    thread = threading.Thread(target=group.run, daemon=True)
    thread.start()
    try:
        mp.append(conn, Message("T", {}))
        mp.put(conn, *(Job(f"w{n}") for n in range(WORKERS)))
        wait_until(lambda: len(seen) == PROCESSORS and len(done) == WORKERS, 120)
        wait_until(lambda: is_running(conn), 60)
        assert counted(conn, CONNECTIONS) <= 20
        # The server counts what a session did once that has been idle for some seconds.
        wait_until(lambda: is_cheap(conn), 120)
        assert counted(conn, CONNECTIONS) <= 20
        mp.append(conn, Message("T", {}))
        wait_until(lambda: set(seen.values()) == {2}, 120)
    finally:
        group.stop.set()
        thread.join(120)
    assert not thread.is_alive()


def is_cheap(conn: Connection) -> bool:
    """At most 20 transactions a second, and 2 ids of transactions."""
    before, xids, started = counted(conn, TRANSACTIONS), counted(conn, XIDS), time.monotonic()
    time.sleep(SECONDS)
    elapsed = time.monotonic() - started
    done, written = counted(conn, TRANSACTIONS) - before, counted(conn, XIDS) - xids
    return done / elapsed <= 20 and written / elapsed <= 2


def is_running(conn: Connection) -> bool:
    query = "select count(*) from milepost.processors where state = 'running'"
    return counted(conn, query) == PROCESSORS


def test_a_budget_that_is_too_small_is_an_error_before_anything_starts(
    url: str, conn: Connection
) -> None:
    small = Milepost(url, max_connections=2)
    small.processor("p", segments=2)(lambda *_: None)
    with pytest.raises(BudgetTooSmall, match="needs at least 3"):
        small.run()
    assert counted(conn, "select count(*) from milepost.processors") == 0


def test_the_smallest_budget_is_enough(url: str, mp: Milepost, conn: Connection) -> None:
    small = Milepost(url, max_connections=3)
    seen: dict[str, int] = {}
    for n in range(10):
        small.processor(f"p{n}", segments=2)(partial(note, seen, f"p{n}"))
    mp.append(conn, *(Message("T", {}, key=str(n)) for n in range(20)))
    small.run(until="caught_up")
    assert set(seen.values()) == {20}
