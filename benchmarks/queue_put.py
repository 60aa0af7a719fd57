"""Many jobs in one transaction from Python, against the least that could be done: COPY of the same
rows, encoded beforehand, into a table without the trigger.

What `put` does on top: it encodes every job, passes arrays of a thousand to a function, and
answers with the ids.
"""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING

from psycopg.copy import Copy, FileWriter

from benchmarks import sample
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate, per_second
from milepost import db
from milepost.queue import put
from milepost.queue.encode import encode
from milepost.records import Job

if TYPE_CHECKING:
    from benchmarks.workbench import Workbench
    from milepost.db import Connection

_COPY = "copy {table} (channel, content) from stdin (format binary)"
_BLOCK_BYTES = 32 * 1024
_UNIT = "jobs/s"


def measure(bench: Workbench) -> list[Comparison]:
    count = bench.choose(50_000, 2_000)
    small = [Job("emails", {"seq": seq}) for seq in range(count)]
    large = [Job("emails", message.data) for message in sample.orders(count)]
    with bench.database() as url, db.connect(url) as conn:
        return [
            _against_copy(bench, conn, "small", small),
            _against_copy(bench, conn, "350 bytes each", large),
        ]


def _against_copy(bench: Workbench, conn: Connection, size: str, jobs: list[Job]) -> Comparison:
    encoded = _encoded(conn, jobs)

    def timed(work: partial[None]) -> float:
        conn.execute("truncate milepost.jobs, bare.jobs")
        return per_second(len(jobs), work)

    measured = alternate(
        {
            "bare": lambda: timed(partial(_copy, conn, "bare.jobs", encoded)),
            "put": lambda: timed(partial(_put, conn, jobs)),
        },
        rounds=bench.choose(15, 2),
    )
    name = f"put, {len(jobs):,} jobs, {size}"
    against = "COPY into a bare table"
    return Comparison(name, against, _UNIT, measured["put"], measured["bare"], AtLeast(0.5))


def _put(conn: Connection, jobs: list[Job]) -> None:
    with conn.transaction():
        put(conn, *jobs)


def _copy(conn: Connection, table: str, encoded: list[bytes]) -> None:
    with conn.transaction(), conn.cursor().copy(_COPY.format(table=table).encode()) as copy:
        for block in encoded:
            copy.write(block)


def _encoded(conn: Connection, jobs: list[Job]) -> list[bytes]:
    file = io.BytesIO()
    with conn.cursor() as cursor, Copy(cursor, binary=True, writer=FileWriter(file)) as copy:
        copy.set_types(("text", "bytea"))
        for job in jobs:
            row = encode(job)
            copy.write_row((row.channel, row.content))
    whole = file.getvalue()
    return [whole[at : at + _BLOCK_BYTES] for at in range(0, len(whole), _BLOCK_BYTES)]


FIGURE = Figure(
    "queue_put",
    "put(conn, *jobs) in one transaction, against COPY of the same, already encoded rows",
    measure,
)
