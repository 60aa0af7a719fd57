"""Moving old messages to the archive, in one process: how fast, how small, and what it costs those
who append at the same time."""

from __future__ import annotations

import shutil
import sys
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import sample
from benchmarks.figure import AtLeast, AtMost, Comparison, Figure
from benchmarks.rounds import alternate, per_second
from benchmarks.spark_log import fill
from milepost import adbc, append, db
from milepost.archive.parquet_file import STORED
from milepost.archive.range_archiver import ARCHIVER, RangeWriter, commit_file, tag_of
from milepost.checkpoints import PostgresCheckpointStore
from milepost.log import horizon
from milepost.log.history import Location
from milepost.records import Position

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.workbench import Workbench

_UNIT = "messages/s"
_FILE = 1_000_000
_TARGET_RATE = 250_000
_TARGET_BYTES = 50


def measure(bench: Workbench) -> list[Comparison]:
    number = bench.choose(2_000_000, 20_000)
    with bench.database() as url:
        fill(url, number)
        sizes: list[float] = []
        sides = {
            "ours": partial(_archive, url, bench.directory / "archive", number, sizes),
            "copy": partial(_read_alone, url, number),
        }
        measured = alternate(sides, rounds=bench.choose(5, 1))
    rounds = len(measured["ours"])
    return [
        Comparison(
            f"archive {number:,} messages in one process", f"{_TARGET_RATE:,}", _UNIT,
            measured["ours"], [_TARGET_RATE] * rounds, AtLeast(1),
        ),
        Comparison(
            f"archive {number:,} messages in one process", "reading them as Arrow alone", _UNIT,
            measured["ours"], measured["copy"],
        ),
        Comparison(
            "bytes of a message in the archive, orders of about 300", f"{_TARGET_BYTES}", "bytes",
            sizes, [_TARGET_BYTES] * rounds, AtMost(1),
        ),
        _longer_orders(bench),
    ]  # fmt: skip


def _longer_orders(bench: Workbench) -> Comparison:
    """Those of the other figures: random prices and up to four random lines."""
    number = bench.choose(200_000, 5_000)
    with bench.database() as url:
        with db.connect(url) as conn:
            append(conn, *sample.orders(number))
        sizes: list[float] = []
        _archive(url, bench.directory / "archive", number, sizes)
    return Comparison(
        "bytes of a message in the archive, orders with random lines", f"{_TARGET_BYTES}", "bytes",
        sizes, [_TARGET_BYTES],
    )  # fmt: skip


def _archive(url: str, directory: Path, number: int, sizes: list[float]) -> float:
    """Everything, as an archiver that has never run."""
    shutil.rmtree(directory, ignore_errors=True)
    with db.connect(url) as conn:
        conn.execute("truncate milepost.archive")
        conn.execute("delete from milepost.checkpoints")
        last = horizon(conn).position
        PostgresCheckpointStore(conn).first(ARCHIVER, lambda: Position.BEGINNING, "bench")
        arrow = adbc.connect(db.conninfo(url))
        tag, location = tag_of(conn, "milepost"), Location(str(directory))
        writer = RangeWriter(arrow, "milepost", location, 0, tag, file_bytes=sys.maxsize)
        files = []

        def work() -> None:
            after = Position.BEGINNING
            while after < last:
                end = min(last, Position(0, after.position + _FILE))
                files.append(writer.write(after, end))
                commit_file(conn, "milepost", files[-1], "bench")
                after = end

        rate = per_second(number, work)
        arrow.close()
    sizes.append(sum(file.bytes for file in files) / number)
    return rate


def _read_alone(url: str, number: int) -> float:
    arrow = adbc.connect(db.conninfo(url))
    columns = ", ".join(f'"{name}"' for name in STORED)
    query = f"select {columns} from milepost.messages order by transaction_id, position"  # noqa: S608
    try:
        return per_second(number, lambda: [None for _ in arrow.stream(query)])
    finally:
        arrow.close()


FIGURE = Figure("archive_write", "Archiving in one process", measure)
