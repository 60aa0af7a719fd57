"""The Python reader over files of the archive, against itself over the table: the same messages, in
the same batches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.archived_log import archive_in_process, remove_all
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.read import exhaust, fill, of_batches
from benchmarks.rounds import alternate, per_second
from milepost import db
from milepost.log import Reader
from milepost.log.history.cold import forget_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.workbench import Workbench
    from milepost.db import Connection
    from milepost.records import RecordedMessage

_BATCH = 1000
_FILE = 100_000
_MESSAGES = f"Reader.messages(), batches of {_BATCH}"
_WAYS: dict[str, Callable[[Reader], Iterator[RecordedMessage]]] = {
    _MESSAGES: Reader.messages,
    f"Reader.read(), whole batches of {_BATCH}": of_batches,  # as processors read
}
_TARGETS = {_MESSAGES: AtLeast(1.5)}


def measure(bench: Workbench) -> list[Comparison]:
    chunks, rounds = bench.choose(20, 1), bench.choose(9, 2)
    with (
        bench.database() as warm,
        bench.database() as cold,
        db.connect(warm) as table,
        db.connect(cold) as archived,
    ):
        count = fill(table, chunks)
        fill(archived, chunks)
        archive_in_process(cold, bench.directory / "archive", _FILE)
        remove_all(cold)
        measured = alternate(
            {
                (name, where): partial(_read, conn, count, way)
                for name, way in _WAYS.items()
                for where, conn in (("archive", archived), ("table", table))
            },
            rounds=rounds,
        )
    return [
        Comparison(
            f"{name}, {count} messages in files",
            "the same in PostgreSQL",
            "messages/s",
            measured[name, "archive"],
            measured[name, "table"],
            _TARGETS.get(name),
        )
        for name in _WAYS
    ]


def _read(
    conn: Connection, count: int, way: Callable[[Reader], Iterator[RecordedMessage]]
) -> float:
    """As a process that has read none of the files yet."""
    forget_files()
    reader = Reader(conn, batch_size=_BATCH)
    return per_second(count, lambda: exhaust(way(reader), count))


FIGURE = Figure(
    "archive_read", "The Python reader over files, against itself over PostgreSQL", measure
)
