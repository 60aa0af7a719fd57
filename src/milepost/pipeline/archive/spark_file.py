"""One file of the archive, written by Spark: the columns of the in-process archiver, and `content`.

One task reads the messages in order, and the JVM writes them as they come. The file is made where
it will be, or on this host if that is an object store, and becomes durable under its name as all
files do.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has none
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from milepost import db
from milepost.archive.parquet_file import ROWS_PER_GROUP, SCHEMA, STORED, Facts, in_format
from milepost.archive.publish import FileName, publish, unwritable
from milepost.archive.range_archiver import Passing, archived_file, range_parameters
from milepost.archive.stored import SPARK_FOLDER
from milepost.errors import ArchiveUnwritable, InvalidOption
from milepost.log.history.cold import ColdFile, read_columns
from milepost.pipeline.frames import is_refused_content, with_content
from milepost.pipeline.names import CONTENT, PLACE
from milepost.pipeline.source import Range, RangeReader, SourceOptions
from milepost.pipeline.spark.connect import refuse_connect
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from milepost.log.history import ArchivedFile, Location

    Rows = Callable[[], Iterator[pa.RecordBatch]]

_TYPES = {"int64": LongType(), "string": StringType()}
_SPARK_SCHEMA = StructType(
    [
        StructField(column.name, _TYPES.get(str(column.type), TimestampType()), column.nullable)
        for column in SCHEMA
    ]
)
# Of the columns of a file, those that `Facts` counts by.
_COUNTED = ("transaction_id", "position", "topic", "type", "recorded_at")
_OPTIONS = {
    "compression": "zstd",
    "parquet.compression.codec.zstd.level": "1",
    "parquet.writer.version": "v2",  # 45 bytes a message instead of 51, and read no slower
    "parquet.block.row.count.limit": str(ROWS_PER_GROUP),
    "parquet.page.write-checksum.enabled": "true",
    "parquet.bloom.filter.enabled#key": "true",
    "parquet.bloom.filter.expected.ndv#key": str(ROWS_PER_GROUP // 2),
    "parquet.bloom.filter.fpp#key": "0.05",
}
# What Java says of a file that cannot be written; the last one is the cause of the others.
_OF_FILES = re.compile(
    r"^(?:Caused by: )?(?:java\.io\.(?:IO|FileNotFound)Exception|java\.nio\.file\.\w+"
    r"|org\.apache\.hadoop\.fs\.\w+): (.+)$",
    re.MULTILINE,
)
_OF_PYTHON = "PythonException"  # what a task says that could not read messages
_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.variant.writeShredding.enabled": "true",
    "spark.sql.variant.inferShreddingSchema": "true",
}


@dataclass(frozen=True, slots=True)
class SparkFiles:
    """Writes files of one log to one place. `file_bytes`: of a file, before it is compressed; the
    last batch may exceed it."""

    spark: SparkSession
    conninfo: str = field(repr=False)  # for the executors
    schema: str
    location: Location
    database: str  # its tag in the names of files
    file_bytes: int = sys.maxsize
    _own: SparkSession = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """In a session of its own: its settings are not those of the user's queries."""
        self._refuse_far_workers()
        own = self.spark.newSession()
        for name, value in _SETTINGS.items():
            own.conf.set(name, value)
        object.__setattr__(self, "_own", own)

    def of_range(self, range_: Range, epoch: int) -> list[ArchivedFile]:
        """Durable files of what the table has of a range, of which none is above the horizon: one,
        or several if the messages are too large for one."""
        options = SourceOptions(conninfo=self.conninfo, schema=self.schema, columns=STORED)
        reader, file_bytes = RangeReader(options), self.file_bytes
        files: list[ArchivedFile] = []
        while not files or files[-1].last < range_.last:
            left = Range(files[-1].last, range_.last) if files else range_
            # A closure that Spark pickles now: without this object, which has the session.
            rows = partial(_first_rows, reader, left, file_bytes)
            files.append(self._written(rows, left, epoch, self._is_cut))
        return files

    def of_files(self, files: Sequence[ArchivedFile]) -> ArchivedFile:
        """A durable file of what adjacent files have."""
        range_ = Range(files[0].after, files[-1].last)
        rows = partial(_rows_of, files)
        return self._written(rows, range_, max(file.epoch for file in files), lambda _: False)

    def _written(
        self, rows: Rows, range_: Range, epoch: int, is_cut: Callable[[Range], bool]
    ) -> ArchivedFile:
        """`is_cut`: whether messages are left of this range, which follows what was written."""
        after, last, serial = range_.after, range_.last, f"s{uuid4().hex[:11]}"
        with self._folder() as folder:
            path, has_content = self._write(self._frame(rows), folder)
            facts = _facts(path, range_)
            if facts.last is not None and is_cut(Range(facts.last, last)):
                last = facts.last
            content = facts.content(path)
            name = str(FileName(after, last, epoch, self.database, serial))
            publish(self.location, path, name)
        return archived_file(
            after, last, self.location, name, content, epoch=epoch, has_content=has_content
        )

    def _is_cut(self, left: Range) -> bool:
        if left.is_empty:
            return False
        with db.connect(self.conninfo) as conn:
            parameters = range_parameters(left.after, left.last)
            return bool(db.fetch_all(conn, self.schema, "range_rows", **parameters))

    def _frame(self, rows: Rows) -> DataFrame:
        """One task, so that the rows are in order, in one file."""

        def read(one: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            """A closure, because Spark pickles it as a whole: the URL in it is bytes that no plan
            shows. Its input is read to the end: else Spark would end this Python process, and the
            next file would wait for another one and its imports."""
            for _ in one:
                yield from rows()

        return self._own.range(0, 1, 1, 1).mapInArrow(read, _SPARK_SCHEMA)

    def _write(self, frame: DataFrame, folder: Path) -> tuple[Path, bool]:
        """With `content`, if a VARIANT can hold the JSON of each message."""
        try:
            return self._save(with_content(frame, [*SCHEMA.names, CONTENT]), folder / "with"), True
        except Exception as error:
            if is_refused_content(error):
                return self._save(frame, folder / "without"), False
            raise

    def _save(self, frame: DataFrame, folder: Path) -> Path:
        try:
            frame.write.options(**_OPTIONS).parquet(f"file://{folder}")
        except (PySparkException, Py4JError) as error:
            if (problem := refused_file(str(error))) is not None:
                raise ArchiveUnwritable(self.location.address, problem) from error
            raise
        (path,) = folder.glob("part-*.parquet")
        return path

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """Where Spark writes; it is gone afterwards. In the directory itself, so that publishing is
        a rename. A sweep finds what a killed process has left."""
        place = Path(self.location.address) if self.location.is_local else None
        with unwritable(self.location):
            if place is not None:
                place.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=SPARK_FOLDER, dir=place))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _refuse_far_workers(self) -> None:
        refuse_connect(self.spark, "The archiver cannot have --engine spark")
        master = self.spark.sparkContext.master or ""
        if not self.location.is_local and not master.startswith("local"):
            raise InvalidOption(
                "--engine",
                f"is spark, but the workers of {master} cannot hand over their files for "
                f"{self.location.address}: use --master local[*], or a directory that all hosts "
                "share.",
            )


def refused_file(error: str) -> str | None:
    """What the file system refused, if that is why a job failed: the disk is full, for example.
    None if the messages could not be read."""
    found = [] if _OF_PYTHON in error else _OF_FILES.findall(error)
    return found[-1] if found else None


def _first_rows(reader: RangeReader, range_: Range, file_bytes: int) -> Iterator[pa.RecordBatch]:
    """Until they are too large for one file."""
    with closing(reader.rows(range_)) as rows:
        yield from map(in_format, Passing(rows, file_bytes))


def _rows_of(files: Sequence[ArchivedFile]) -> Iterator[pa.RecordBatch]:
    for file in files:
        for number in range(ColdFile.open(file).metadata.num_row_groups):
            rows = read_columns(file, number, SCHEMA.names)
            for batch in rows.to_batches(max_chunksize=16_384):
                # Another program that wrote the file may not have declared what is never null.
                yield pa.RecordBatch.from_arrays(batch.columns, schema=SCHEMA)


def _facts(path: Path, range_: Range) -> Facts:
    """What the manifest says, counted in the file itself. Readers rely on the order of its rows."""
    facts, last = Facts(), range_.after
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for number in range(file.metadata.num_row_groups):
            rows = file.read_row_group(number, columns=list(_COUNTED))
            if rows.num_rows:
                facts.add(rows)
                last = _last_in_order(rows, last, path)
    if last > range_.last:
        raise RuntimeError(f"{path} has messages after {range_.last}.")
    return facts


def _last_in_order(rows: pa.Table, after: Position, path: Path) -> Position:
    ids, positions = (rows.column(name).combine_chunks() for name in PLACE)
    found = [Position(ids[row].as_py(), positions[row].as_py()) for row in (0, len(ids) - 1)]
    is_later = pc.greater(ids[1:], ids[:-1])
    is_next = pc.and_(pc.equal(ids[1:], ids[:-1]), pc.greater(positions[1:], positions[:-1]))
    if found[0] <= after or not pc.all(pc.or_(is_later, is_next), min_count=0).as_py():
        raise RuntimeError(f"{path} is not in the order of the log.")
    return found[1]
