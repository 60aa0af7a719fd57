"""Reading the whole log through the reader, against COPY of the same rows with the same JSON
decoding: what the batches, the horizon and the message objects cost."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import orjson
from psycopg.types.json import set_json_loads

from benchmarks import sample
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate, per_second
from milepost import append, db
from milepost.log import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.workbench import Workbench
    from milepost.db import Connection

_COPY = b"""
copy (
  select type, data, key, topic, metadata, id, transaction_id, "position", recorded_at
  from milepost.messages
  order by transaction_id, "position"
) to stdout (format binary)
"""
_TYPES = ("text", "json", "text", "text", "json", "uuid", "int8", "int8", "timestamptz")
_BATCH_SIZES = (100, 1000, 10_000)
_DEFAULT = 1000


def measure(bench: Workbench) -> list[Comparison]:
    with bench.database() as url, db.connect(url) as conn:
        count = _fill(conn, chunks=bench.choose(20, 1))
        sides = {0: partial(_read_raw, conn, count)} | {
            size: partial(_read, conn, count, size) for size in _BATCH_SIZES
        }
        measured = alternate(sides, rounds=bench.choose(9, 2))
    return [_comparison(count, size, measured) for size in _BATCH_SIZES]


def _fill(conn: Connection, chunks: int) -> int:
    messages = sample.orders(10_000)
    for _ in range(chunks):
        append(conn, *messages)
    conn.execute("vacuum analyze milepost.messages")
    return chunks * len(messages)


def _read(conn: Connection, count: int, batch_size: int) -> float:
    reader = Reader(conn, batch_size=batch_size)
    return per_second(count, lambda: _exhaust(reader.messages(), count))


def _read_raw(conn: Connection, count: int) -> float:
    def work() -> None:
        with conn.cursor() as cursor:
            set_json_loads(orjson.loads, cursor)
            with cursor.copy(_COPY) as copy:
                copy.set_types(_TYPES)
                _exhaust(copy.rows(), count)

    return per_second(count, work)


def _exhaust(things: Iterable[object], count: int) -> None:
    last = deque(enumerate(things, start=1), maxlen=1)
    if last[0][0] != count:
        raise RuntimeError(f"read {last[0][0]} messages of {count}")


def _comparison(count: int, size: int, measured: dict[int, list[float]]) -> Comparison:
    return Comparison(
        f"Reader.messages(), {count} messages, batches of {size}",
        "COPY",
        "messages/s",
        measured[size],
        measured[0],
        AtLeast(0.5) if size == _DEFAULT else None,
    )


FIGURE = Figure(
    "read",
    "The Python reader, against COPY of the same rows with the same JSON decoding",
    measure,
)
