"""Archiving and removing in the tests of Spark, as the archiver and retention do it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from milepost import Milepost, Position, adbc, db
from milepost.archive.range_archiver import ARCHIVER, RangeArchiver, tag_of
from milepost.checkpoints import PostgresCheckpointStore
from milepost.log.history import ArchivedFile, Location, files_between

GROUP = 10  # messages in a row group


class InSmallBatches(adbc.Connection):
    """So that row groups are small."""

    def stream(self, statement: str) -> Generator[pa.RecordBatch]:
        for batch in adbc.Connection.stream(self, statement):
            for first in range(0, batch.num_rows, GROUP):
                yield batch.slice(first, GROUP)


@dataclass(frozen=True)
class Archive:
    """Of one log, in one directory."""

    mp: Milepost
    url: str
    directory: Path

    def up_to(self, *ends: Position) -> list[ArchivedFile]:
        """One file for each stretch that follows what is archived."""
        with (
            self.mp.connect() as conn,
            closing(adbc.connect(db.conninfo(self.url))) as arrow,
        ):
            store = PostgresCheckpointStore(conn)
            stored = store.first(ARCHIVER, lambda: Position.BEGINNING, "tests")
            archiver = RangeArchiver(
                conn,
                InSmallBatches(arrow.database, arrow.session),
                "milepost",
                Location.parse(str(self.directory)),
                stored.epoch,
                "tests",
                tag_of(conn, "milepost"),
            )
            stretches = pairwise([stored.position, *ends])
            return [archiver.archive(after, last) for after, last in stretches]

    def files(self) -> list[ArchivedFile]:
        with self.mp.connect() as conn:
            return files_between(conn, "milepost", Position.BEGINNING, Position(2**62, 2**62))

    def path(self, file: ArchivedFile) -> Path:
        return self.directory / file.name

    def remove_up_to(self, position: Position) -> None:
        """As retention does: the marker and the deletion in one transaction."""
        place = [position.transaction_id, position.position]
        with self.mp.connect() as conn, conn.transaction():
            conn.execute(
                "update milepost.log set removed_transaction_id = %s, removed_position = %s", place
            )
            conn.execute(
                "delete from milepost.messages where (transaction_id, position) <= (%s, %s)", place
            )

    def replace(self, file: ArchivedFile) -> ArchivedFile:
        """By a file of another name with the same content, as a compaction does."""
        name = file.name.replace(".parquet", "_again.parquet")
        self.path(file).rename(self.directory / name)
        with self.mp.connect() as conn:
            conn.execute("update milepost.archive set name = %s where name = %s", [name, file.name])
        return next(each for each in self.files() if each.name == name)

    def damage(self, file: ArchivedFile) -> None:
        """In what it has of data, so that it can be decoded, to something else: only the checksum
        of the page tells."""
        path = self.path(file)
        content, before = path.read_bytes(), pq.read_table(path, columns=["data"])
        for place in range(*_data_of(path)):
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            try:
                if pq.read_table(path, columns=["data"]) != before:
                    return
            except OSError:
                continue  # it was noticed
        raise AssertionError("no byte of the page can be changed unnoticed")


def _data_of(path: Path) -> tuple[int, int]:
    """Where the data of the first row group begins and ends."""
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    chunk = next(column for column in columns if column.path_in_schema == "data")
    begin = chunk.data_page_offset
    return begin + 40, begin + chunk.total_compressed_size  # without the header of the page


def thirds(positions: Sequence[Position]) -> tuple[Position, Position]:
    """Where to end two files, so that a third of the messages is in each, and a third in none."""
    third = len(positions) // 3
    return positions[third - 1], positions[2 * third - 1]
