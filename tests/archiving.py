"""Archive ranges of a log and remove them from its table, as the archiver and the remover do."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from milepost import adbc, db
from milepost.archive.parquet_file import Facts
from milepost.archive.publish import FileName
from milepost.archive.range_archiver import (
    ARCHIVER,
    RangeArchiver,
    add_to_manifest,
    archived_file,
    tag_of,
)
from milepost.checkpoints import PostgresCheckpointStore
from milepost.db import Connection, one
from milepost.log import horizon
from milepost.log.history import ArchivedFile, Location, files_between
from milepost.records import Position

OWNER = "archiver of a test"
_serials = count()
END = Position(2**63 - 1, 0)
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
    """The archive of one database, in one directory."""

    conn: Connection
    url: str = field(repr=False)
    folder: Path
    _arrow: adbc.Connection | None = field(default=None, init=False)

    def close(self) -> None:
        if self._arrow is not None:
            self._arrow.close()

    @property
    def end(self) -> Position:
        return Position(*one(self.conn.execute("select * from milepost.archive_end()").fetchone()))

    def archive(self, up_to: Position | None = None) -> ArchivedFile:
        """What is after the end of the archive, up to a position or the horizon, in one file."""
        last = horizon(self.conn).position
        if up_to is not None:
            row = self.conn.execute(_LAST, [up_to.transaction_id, up_to.position]).fetchone()
            last = min(last, Position(*one(row)))
        store = PostgresCheckpointStore(self.conn)
        begun = store.first(ARCHIVER, lambda: self.end, OWNER)
        if self._arrow is None:
            self._arrow = adbc.connect(db.conninfo(self.url))
        archiver = RangeArchiver(
            self.conn,
            self._arrow,
            "milepost",
            Location.parse(str(self.folder)),
            begun.epoch,
            OWNER,
            tag_of(self.conn, "milepost"),
        )
        return archiver.archive(begun.position, last)

    def remove(self, up_to: Position | None = None) -> Position:
        """From the table, whoever still needs it: up to a position, or up to the end of the
        archive. The rows and the marker in one transaction."""
        last = self.end if up_to is None else up_to
        parameters = {"id": last.transaction_id, "position": last.position}
        self.conn.execute(_REMOVE, parameters)
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
        path = self.folder / name
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
        for path in self.folder.glob("*.parquet"):
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

    def path(self, file: ArchivedFile) -> Path:
        return self.folder / file.name
