"""Archives in the tests of Spark: small row groups, and files that are replaced or damaged."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from milepost import Milepost, Position, adbc
from milepost.log.history import ArchivedFile
from tests import archiving

GROUP = 10  # messages in a row group


class InSmallBatches(adbc.Connection):
    """So that row groups are small."""

    def stream(self, statement: str) -> Generator[pa.RecordBatch]:
        for batch in adbc.Connection.stream(self, statement):
            for first in range(0, batch.num_rows, GROUP):
                yield batch.slice(first, GROUP)


class Archive(archiving.Archive):
    def _opened(self) -> adbc.Connection:
        opened = super()._opened()
        return InSmallBatches(opened.database, opened.session)

    def remove_up_to(self, position: Position) -> None:
        self.remove(position)

    def replace(self, file: ArchivedFile) -> ArchivedFile:
        """By a file of another name with the same content, as a compaction does."""
        name = file.name.replace(".parquet", "_again.parquet")
        self.path(file).rename(self.directory / name)
        rename = "update milepost.archive set name = %s where name = %s"
        self.conn.execute(rename, [name, file.name])
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


@contextmanager
def archive_of(mp: Milepost, url: str, place: Path | str) -> Iterator[Archive]:
    """With a connection of its own."""
    with mp.connect() as conn, closing(Archive.at(conn, url, place)) as made:
        yield made


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
