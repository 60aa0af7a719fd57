"""Archive ranges of a log and remove them from its table, as the archiver and the remover do."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from milepost import Message, adbc, append, db
from milepost.archive.parquet_file import Facts
from milepost.archive.publish import FileName
from milepost.archive.range_archiver import (
    ARCHIVER,
    RangeWriter,
    add_to_manifest,
    archived_file,
    commit_file,
    tag_of,
)
from milepost.checkpoints import PostgresCheckpointStore
from milepost.db import Connection, one
from milepost.log import horizon
from milepost.log.history import ArchivedFile, Location, files_between
from milepost.log.history.cold import ColdFile
from milepost.log.history.rows import COLUMNS
from milepost.records import Position

OWNER = "archiver of a test"
_serials = count()
END = Position(2**63 - 1, 2**63 - 1)
_REMOVE = """
with removed as (
  delete from milepost.messages where (transaction_id, "position") <= (%(id)s, %(position)s)
)
update milepost.log set removed_transaction_id = %(id)s, removed_position = %(position)s
where (removed_transaction_id, removed_position) < (%(id)s, %(position)s)
"""
_LAST = """
select transaction_id, "position" from milepost.messages
where (transaction_id, "position") <= (%s, %s)
order by transaction_id desc, "position" desc limit 1
"""


@dataclass
class Archive:
    """The archive of one database, in one place."""

    conn: Connection
    url: str = field(repr=False)
    location: Location
    _arrow: adbc.Connection | None = field(default=None, init=False)

    @classmethod
    def at(cls, conn: Connection, url: str, place: Path | str) -> Self:
        return cls(conn, url, Location.parse(str(place)))

    def close(self) -> None:
        if self._arrow is not None:
            self._arrow.close()

    @property
    def end(self) -> Position:
        return Position(*one(self.conn.execute("select * from milepost.archive_end()").fetchone()))

    def archive(self, up_to: Position | None = None) -> ArchivedFile:
        """What is after the end of the archive, up to a position or the horizon, in one file."""
        file = self.publish(up_to)
        self.commit(file)
        return file

    def up_to(self, *ends: Position) -> list[ArchivedFile]:
        """One file for each stretch that follows what is archived."""
        return [self.archive(end) for end in ends]

    def archive_each(self, ranges: Sequence[Sequence[Position]]) -> list[ArchivedFile]:
        """One file for each."""
        return self.up_to(*(positions[-1] for positions in ranges))

    def publish(self, up_to: Position | None = None) -> ArchivedFile:
        """As an archiver that is held before it adds its file to the manifest."""
        last = horizon(self.conn).position
        if up_to is not None:
            row = self.conn.execute(_LAST, [up_to.transaction_id, up_to.position]).fetchone()
            last = min(last, Position(*one(row)))
        store = PostgresCheckpointStore(self.conn)
        begun = store.first(ARCHIVER, lambda: self.end, OWNER)
        tag = tag_of(self.conn, "milepost")
        writer = RangeWriter(
            self._opened(), "milepost", self.location, begun.epoch, tag, file_bytes=sys.maxsize
        )
        return writer.write(begun.position, last)

    def commit(self, file: ArchivedFile) -> None:
        """It continues."""
        commit_file(self.conn, "milepost", file, OWNER)

    def _opened(self) -> adbc.Connection:
        if self._arrow is None:
            self._arrow = adbc.connect(db.conninfo(self.url))
        return self._arrow

    def remove(self, up_to: Position | None = None) -> Position:
        """From the table, whoever still needs it: up to a position, or up to the end of the
        archive."""
        last = self.end if up_to is None else up_to
        remove(self.conn, last)
        return last

    def move(self, up_to: Position | None = None) -> ArchivedFile:
        """Archive and remove."""
        file = self.archive(up_to)
        self.remove()
        return file

    def join(
        self,
        files: list[ArchivedFile],
        rows_per_group: int = 1000,
        without_key: str | None = None,
    ) -> ArchivedFile:
        """Replace files that follow each other by one, as a compaction does; without a key, as an
        erasure does. The old files stay."""
        table = pa.concat_tables(pq.read_table(self.path(file)) for file in files)
        if without_key is not None:
            table = table.filter(pc.field("key") != without_key)
        after, last = files[0].after, files[-1].last
        serial = f"j{next(_serials)}"
        name = str(FileName(after, last, 0, tag_of(self.conn, "milepost"), serial))
        path = self.directory / name
        pq.write_table(table, path, row_group_size=rows_per_group, write_page_checksum=True)
        facts = Facts()
        if len(table):
            facts.add(table)
        joined = archived_file(
            after, last, Location(files[0].location), name, facts.content(path), epoch=0
        )
        with self.conn.transaction():
            is_first, *_ = [self._drop(file) for file in files]
            add_to_manifest(self.conn, "milepost", joined)
            self.conn.execute(
                "update milepost.archive set is_first = %s where name = %s", [is_first, name]
            )
        return joined

    def sweep(self) -> None:
        """Remove files that the manifest does not name."""
        names = {file.name for file in self.files()}
        for path in self.directory.glob("*.parquet"):
            if path.name not in names:
                path.unlink()

    def _drop(self, file: ArchivedFile) -> bool:
        """From the manifest; whether it was the first."""
        row = self.conn.execute(
            "delete from milepost.archive where name = %s returning is_first", [file.name]
        ).fetchone()
        return bool(one(row)[0])

    def files(self) -> list[ArchivedFile]:
        return files_between(self.conn, "milepost", Position.BEGINNING, END)

    @property
    def directory(self) -> Path:
        return Path(self.location.address)

    def path(self, file: ArchivedFile) -> Path:
        return self.directory / file.name

    def names(self) -> set[str]:
        """What is in the directory."""
        return {path.name for path in self.directory.iterdir()}

    def age(self, seconds: float) -> None:
        """As if everything in the directory had been written before."""
        for path in [*self.directory.rglob("*")]:
            os.utime(path, (time.time() - seconds,) * 2)


@contextmanager
def archiving(url: str, location: Location) -> Iterator[Archive]:
    """An archive with a connection of its own."""
    with db.connect(url) as conn, closing(Archive(conn, url, location)) as made:
        yield made


def append_ranges(conn: Connection, count: int, size: int, keys: int = 7) -> list[list[Position]]:
    """So many ranges of so many messages, with repeated keys, some without one."""
    return [
        append(
            conn,
            *(
                Message(
                    f"Type{n % 3}",
                    {"n": number * size + n, "amount": n},
                    key=None if n % keys == 0 else f"k{n % keys}",
                    topic=f"topic{n % 2}",
                )
                for n in range(size)
            ),
        )
        for number in range(count)
    ]


def remove(conn: Connection, last: Position) -> None:
    """From the table, as retention does: the rows and the marker in one transaction."""
    conn.execute(_REMOVE, {"id": last.transaction_id, "position": last.position})


def use_archive(conn: Connection, location: Location) -> None:
    """As `milepost retention set --archive` does."""
    conn.execute(
        "insert into milepost.retention (archive) values (%s) "
        "on conflict (is_only) do update set archive = excluded.archive",
        [location.address],
    )


def rows_of(file: ArchivedFile) -> Iterator[tuple[object, ...]]:
    """Every message as a tuple of `COLUMNS`, undecoded."""
    opened = ColdFile.open(file)
    for number in range(opened.metadata.num_row_groups):
        table = opened.group(number).table
        yield from zip(*(table.column(name).to_pylist() for name in COLUMNS), strict=True)
