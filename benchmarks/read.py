"""Reading the whole log through the reader, against COPY of the same rows with the same JSON
decoding: what the batches, the horizon and the message objects cost."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import orjson
from psycopg.adapt import Loader
from psycopg.pq import Format

from benchmarks import sample
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate, per_second
from milepost import append, db
from milepost.log import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.workbench import Workbench
    from milepost.db import Connection
    from milepost.records import RecordedMessage

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
_COPIED = "COPY"
_MESSAGES = {f"Reader.messages(), batches of {size}": size for size in _BATCH_SIZES}
_BATCHES = f"Reader.read(), whole batches of {_DEFAULT}"  # as processors read
_TARGETS = {f"Reader.messages(), batches of {_DEFAULT}": AtLeast(0.5)}


class _Json(Loader):
    """What the reader has: set_json_loads() would call a method of Python for each value."""

    format = Format.BINARY
    load = staticmethod(orjson.loads)  # type: ignore[assignment]


def measure(bench: Workbench) -> list[Comparison]:
    with bench.database() as url, db.connect(url) as conn:
        count = fill(conn, chunks=bench.choose(20, 1))
        sides = {
            _COPIED: partial(_read_raw, conn, count),
            **{name: partial(_read, conn, count, size) for name, size in _MESSAGES.items()},
            _BATCHES: partial(_read_batches, conn, count),
        }
        measured = alternate(sides, rounds=bench.choose(9, 2))
    return [_comparison(count, name, measured) for name in (*_MESSAGES, _BATCHES)]


def fill(conn: Connection, chunks: int) -> int:
    messages = sample.orders(10_000)
    for _ in range(chunks):
        append(conn, *messages)
    conn.execute("vacuum analyze milepost.messages")
    return chunks * len(messages)


def _read(conn: Connection, count: int, batch_size: int) -> float:
    reader = Reader(conn, batch_size=batch_size)
    return per_second(count, lambda: exhaust(reader.messages(), count))


def _read_batches(conn: Connection, count: int) -> float:
    reader = Reader(conn, batch_size=_DEFAULT)
    return per_second(count, lambda: exhaust(of_batches(reader), count))


def of_batches(reader: Reader) -> Iterator[RecordedMessage]:
    """Every message of a batch is there until the batch is done with."""
    while True:
        batch = reader.read()
        yield from batch.messages
        if not batch.is_full:
            return


def _read_raw(conn: Connection, count: int) -> float:
    def work() -> None:
        with conn.cursor() as cursor:
            cursor.adapters.register_loader("json", _Json)
            with cursor.copy(_COPY) as copy:
                copy.set_types(_TYPES)
                exhaust(copy.rows(), count)

    return per_second(count, work)


def exhaust(things: Iterable[object], count: int) -> None:
    last = deque(enumerate(things, start=1), maxlen=1)
    if last[0][0] != count:
        raise RuntimeError(f"read {last[0][0]} messages of {count}")


def _comparison(count: int, name: str, measured: dict[str, list[float]]) -> Comparison:
    return Comparison(
        f"{name}, {count} messages",
        _COPIED,
        "messages/s",
        measured[name],
        measured[_COPIED],
        _TARGETS.get(name),
    )


FIGURE = Figure(
    "read",
    "The Python reader, against COPY of the same rows with the same JSON decoding",
    measure,
)
