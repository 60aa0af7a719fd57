"""Archive one range of the log: a durable file first, then the manifest and the checkpoint in one
transaction.

A range below the horizon is final, so that a file is. If the process dies before the transaction
commits, the file is an orphan: nothing refers to it, and the next attempt writes another.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from psycopg.sql import Identifier

from milepost import adbc, db, sql
from milepost.archive.parquet_file import FORMAT_VERSION, STORED, write
from milepost.archive.publish import FileName, database_tag, publish, scratch_file
from milepost.archive.stored import lock_manifest
from milepost.checkpoints import Answer, CheckpointKey, PostgresCheckpointStore
from milepost.log.history import ArchivedFile, Location
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import pyarrow as pa

    from milepost.archive.parquet_file import Content
    from milepost.db import Connection

# The archiver is a processor like any other: its checkpoint is the end of the archive.
ARCHIVER = CheckpointKey("milepost.archive")
_NO_FILTER = (
    "topics", "types", "keys", "ids", "not_topics", "not_types", "not_keys", "not_ids", "is_keyed",
    "min_transaction_id", "max_transaction_id", "min_position", "max_position", "recorded_from",
    "recorded_to",
)  # fmt: skip


class ArchiverFenced(Exception):
    """Another archiver has moved the checkpoint. The file that was written is an orphan."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__(f"the archiver's checkpoint was moved: {answer.name.lower()}")


@dataclass(frozen=True, slots=True)
class RangeWriter:
    """Writes ranges of one log to files in one place, under one epoch."""

    arrow: adbc.Connection
    schema: str
    location: Location
    epoch: int
    database: str  # its tag in the names of files
    file_bytes: int
    serial: str = ""  # of this writer: two of the same epoch, after a failover, use other names

    def write(
        self, after: Position, last: Position, check: Callable[[], None] = lambda: None
    ) -> ArchivedFile:
        """The messages after one position, up to and including another, or up to an earlier one if
        they are too large for one file; none may be above the horizon. `check` is called between
        batches, and may raise.

        After a file that ends early, the connection must be closed: the server still sends."""
        with (
            closing(self._batches(after, last)) as batches,
            scratch_file(self.location) as scratch,
        ):
            passing = Passing(batches, self.file_bytes, check)
            content = write(scratch, passing)
            if passing.is_cut and passing.last is not None:
                last = passing.last
            name = FileName(after, last, self.epoch, self.database, self.serial)
            publish(self.location, scratch, str(name))
        return archived_file(after, last, self.location, str(name), content, epoch=self.epoch)

    def _batches(self, after: Position, last: Position) -> Generator[pa.RecordBatch, None, None]:
        columns = ", ".join(Identifier("m", name).as_string() for name in STORED)
        query = sql.query("range_read", self.schema).replace(b"{columns}", columns.encode())
        parameters = dict.fromkeys(_NO_FILTER) | range_parameters(after, last)
        return self.arrow.stream(adbc.with_literals(query, parameters))


@dataclass(slots=True)
class Passing:
    """The batches of a range, until they are too large for one file."""

    batches: Iterator[pa.RecordBatch]
    file_bytes: int
    check: Callable[[], None] = lambda: None
    last: Position | None = field(default=None, init=False)
    is_cut: bool = field(default=False, init=False)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        size = 0
        for batch in self.batches:
            self.check()
            self.is_cut = size >= self.file_bytes
            if self.is_cut:
                return
            size += batch.nbytes
            row = batch.num_rows - 1
            if row >= 0:
                self.last = Position(
                    *(batch.column(name)[row].as_py() for name in ("transaction_id", "position"))
                )
            yield batch


def commit_file(conn: Connection, schema: str, file: ArchivedFile, owner: str) -> None:
    """The manifest and the checkpoint in one transaction. The file must be durable."""
    with db.translated(schema, who=conn), conn.transaction():
        lock_manifest(conn, schema, file)
        store = PostgresCheckpointStore(conn, schema)
        answer = store.store(ARCHIVER, file.after, file.last, epoch=file.epoch, owner=owner)
        if answer is not Answer.STORED:
            raise ArchiverFenced(answer)
        add_to_manifest(conn, schema, file)


def archived_file(
    after: Position,
    last: Position,
    location: Location,
    name: str,
    content: Content,
    *,
    epoch: int,
    has_content: bool = False,
) -> ArchivedFile:
    return ArchivedFile(
        after,
        last,
        location.address,
        name,
        **asdict(content),
        format_version=FORMAT_VERSION,
        has_content=has_content,
        epoch=epoch,
    )


def add_to_manifest(conn: Connection, schema: str, file: ArchivedFile) -> None:
    """In the caller's transaction."""
    facts = {
        name: getattr(file, name)
        for name in (
            "location", "name", "messages", "bytes", "sha256", "recorded_from", "recorded_to",
            "format_version", "has_content", "epoch",
        )
    }  # fmt: skip
    for name in ("topics", "types"):
        names = getattr(file, name)
        facts[name] = None if names is None else list(names)
    db.run(conn, schema, "archive_add", **range_parameters(file.after, file.last), **facts)


def range_parameters(after: Position, last: Position) -> dict[str, int]:
    return {
        "after_transaction_id": after.transaction_id,
        "after_position": after.position,
        "last_transaction_id": last.transaction_id,
        "last_position": last.position,
    }


def tag_of(conn: Connection, schema: str) -> str:
    """What the names of this database's files have in common."""
    identifier, database = db.fetch_one(conn, schema, "archive_database")
    return database_tag(identifier, database, schema)
