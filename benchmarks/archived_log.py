"""A log of which everything is archived, by either engine, for the figures of Spark."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from milepost import adbc, db
from milepost.log import horizon
from milepost.log.history import Location
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from milepost.db import Connection
    from milepost.pipeline.source import Range

SCHEMA = "milepost"
MESSAGES_PER_FILE = 1_000_000
_REMOVE = """
update milepost.log set removed_transaction_id = %s, removed_position = %s;
"""


def archive_by_spark(spark: SparkSession, url: str, directory: Path, per_file: int) -> None:
    from milepost.archive.range_archiver import commit_file, tag_of
    from milepost.pipeline.archive import SparkFiles, archive_with_spark

    with db.connect(url) as conn:
        place = Location.parse(str(directory))
        files = SparkFiles(spark, db.conninfo(url), SCHEMA, place, tag_of(conn, SCHEMA))
        archive_with_spark(
            files,
            _ranges(conn, url, per_file),
            _begin(conn),
            lambda file: commit_file(conn, SCHEMA, file, "bench"),
        )


def archive_in_process(url: str, directory: Path, per_file: int) -> None:
    from milepost.archive.range_archiver import RangeWriter, commit_file, tag_of

    with db.connect(url) as conn, closing(adbc.connect(db.conninfo(url))) as arrow:
        place, epoch = Location.parse(str(directory)), _begin(conn)
        tag = tag_of(conn, SCHEMA)
        writer = RangeWriter(arrow, SCHEMA, place, epoch, tag, file_bytes=sys.maxsize)
        for range_ in _ranges(conn, url, per_file):
            commit_file(conn, SCHEMA, writer.write(range_.after, range_.last), "bench")


def remove_all(url: str) -> None:
    """What is archived is not in the table any more."""
    with db.connect(url) as conn:
        end = horizon(conn).position
        with conn.transaction():
            conn.execute(_REMOVE, [end.transaction_id, end.position])
            conn.execute("truncate milepost.messages")


def _begin(conn: Connection) -> int:
    from milepost.archive.range_archiver import ARCHIVER
    from milepost.checkpoints import PostgresCheckpointStore

    store = PostgresCheckpointStore(conn)
    return store.first(ARCHIVER, lambda: Position.BEGINNING, "bench").epoch


def _ranges(conn: Connection, url: str, per_file: int) -> Iterator[Range]:
    from milepost.pipeline.source import Planner, SourceOptions

    with closing(Planner(SourceOptions(db.conninfo(url)))) as planner:
        yield from planner.ranges(Position.BEGINNING, horizon(conn).position, per_file)


def server_cpu_seconds(conn: Connection) -> float:
    """Of all processes of the server, on this host: those that are there, and those that have
    ended, which its first process has counted."""
    backend = db.one(conn.execute("select pg_backend_pid()").fetchone())[0]
    first = int(_stat(backend)[1])
    own = _stat(first)
    ticks = sum(map(int, own[11:15]))
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (found := _stat(int(entry.name))) and int(found[1]) == first:
            ticks += sum(map(int, found[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """From its state on: see proc(5). Nothing if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()
