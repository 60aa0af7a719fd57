"""What standbys cost the instance that works: a backlog of several processors, one process against
three of them."""

from __future__ import annotations

import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from benchmarks import sample
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate
from benchmarks.standby_instance import TABLE, started
from milepost import append, db
from milepost.db import one

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.workbench import Workbench
    from milepost.db import Connection

_PROCESSORS, _INSTANCES = 8, 3
_LIVING = """
select count(distinct application_name) from pg_stat_activity
where datname = current_database() and application_name like 'milepost ' || %s || '-%%'
"""


def measure(bench: Workbench) -> list[Comparison]:
    number = bench.choose(10_000, 500)
    prefixes = (f"standbys{n}" for n in count())
    with bench.database() as url:
        with db.connect(url) as conn:
            conn.execute(TABLE)
        sides = {n: partial(_rate, url, prefixes, number, n) for n in (1, _INSTANCES)}
        measured = alternate(sides, rounds=bench.choose(5, 1))
    return [
        Comparison(
            f"{_PROCESSORS} processors in {_INSTANCES} instances each", "one instance",
            "messages/s", measured[_INSTANCES], measured[1], AtLeast(0.7),
        )
    ]  # fmt: skip


def _rate(url: str, prefixes: Iterator[str], number: int, instances: int) -> float:
    """From the moment in which messages appear to the last one handled by every processor."""
    prefix = next(prefixes)
    with db.connect(url) as conn:
        conn.execute("truncate totals, milepost.messages")
        with started(url, prefix, _PROCESSORS, instances):
            while one(conn.execute(_LIVING, [prefix]).fetchone())[0] < _PROCESSORS:
                time.sleep(0.05)
            time.sleep(2.0)  # all instances have begun
            append(conn, *sample.orders(number))
            began = time.monotonic()
            _wait_for(conn, number * _PROCESSORS)
            return number * _PROCESSORS / (time.monotonic() - began)


def _wait_for(conn: Connection, handled: int) -> None:
    while (one(conn.execute("select sum(handled) from totals").fetchone())[0] or 0) < handled:
        time.sleep(0.02)


FIGURE = Figure("processor_standbys", "Instances that stand by, beside one that works", measure)
