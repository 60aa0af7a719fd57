"""Write the messages of adjacent files into one new file, which is durable then and not yet in the
manifest. Batch by batch, whatever the size of the files."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from milepost.archive.parquet_file import SCHEMA, write_rows
from milepost.archive.publish import FileName, publish, scratch_file
from milepost.archive.range_archiver import archived_file
from milepost.archive.stored import remove_stored
from milepost.archive.upkeep.manifest import replace_files
from milepost.log.history import Location
from milepost.log.history.cold import batches_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from milepost.db import Connection
    from milepost.log.history import ArchivedFile


def rewritten(
    files: Sequence[ArchivedFile],
    location: Location,
    database: str,
    kept: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda batch: batch,
) -> ArchivedFile:
    """`database`: the tag of this one. `kept` chooses among the messages. The column `content` is
    not written: only Spark writes it."""
    after, last, epoch = files[0].after, files[-1].last, max(file.epoch for file in files)
    name = str(FileName(after, last, epoch, database, serial=uuid4().hex[:12]))
    with scratch_file(location) as scratch:
        content = write_rows(scratch, map(kept, _batches(files)))
        publish(location, scratch, name)
    return archived_file(after, last, location, name, content, epoch=epoch)


def swap(conn: Connection, schema: str, old: Sequence[ArchivedFile], new: ArchivedFile) -> bool:
    """As `replace_files`, without leaving the new file behind where the manifest has changed. Its
    name is its own, so nobody else can have used it."""
    if replace_files(conn, schema, old, new):
        return True
    remove_stored(Location(new.location), new.name)
    return False


def _batches(files: Sequence[ArchivedFile]) -> Iterator[pa.RecordBatch]:
    for file in files:
        for batch in batches_of(file, SCHEMA.names):
            # Spark declares neither what is never null, nor times as we do.
            columns = [batch.column(field.name).cast(field.type) for field in SCHEMA]
            yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
