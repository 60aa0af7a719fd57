"""One file of the archive, written by Spark: the columns of the in-process archiver, and `content`.

One task reads the messages in order, and the JVM writes them as they come. The file is made where
it will be, or on this host if that is an object store, and becomes durable under its name as all
files do.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from milepost.archive.parquet_file import ROWS_PER_GROUP, SCHEMA, STORED, Facts, in_format
from milepost.archive.publish import FileName, publish
from milepost.archive.range_archiver import archived_file
from milepost.archive.stored import SPARK_FOLDER
from milepost.errors import InvalidOption
from milepost.log.history.cold import ColdFile, read_columns
from milepost.pipeline.connect import refuse_connect
from milepost.pipeline.frames import is_refused_content, with_content
from milepost.pipeline.names import CONTENT, PLACE
from milepost.pipeline.source import Range, RangeReader, SourceOptions
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
_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.variant.writeShredding.enabled": "true",
    "spark.sql.variant.inferShreddingSchema": "true",
}


@dataclass(frozen=True, slots=True)
class SparkFiles:
    """Writes files of one log to one place."""

    spark: SparkSession
    conninfo: str = field(repr=False)  # for the executors
    schema: str
    location: Location
    database: str  # its tag in the names of files
    _own: SparkSession = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """In a session of its own: its settings are not those of the user's queries."""
        self._refuse_far_workers()
        own = self.spark.newSession()
        for name, value in _SETTINGS.items():
            own.conf.set(name, value)
        object.__setattr__(self, "_own", own)

    def of_range(self, range_: Range, epoch: int) -> ArchivedFile:
        """A durable file of what the table has of a range, of which none is above the horizon."""
        options = SourceOptions(conninfo=self.conninfo, schema=self.schema, columns=STORED)
        reader = RangeReader(options)
        return self._written(lambda: map(in_format, reader.rows(range_)), range_, epoch)

    def of_files(self, files: Sequence[ArchivedFile]) -> ArchivedFile:
        """A durable file of what adjacent files have."""
        range_ = Range(files[0].after, files[-1].last)
        return self._written(lambda: _rows_of(files), range_, max(file.epoch for file in files))

    def _written(self, rows: Rows, range_: Range, epoch: int) -> ArchivedFile:
        name = FileName(
            range_.after, range_.last, epoch, self.database, serial=f"s{uuid4().hex[:11]}"
        )
        with self._folder() as folder:
            path, has_content = self._write(self._frame(rows), folder)
            content = _facts(path, range_).content(path)
            publish(self.location, path, str(name))
        return archived_file(
            range_.after, range_.last, self.location, str(name), content,
            epoch=epoch, has_content=has_content,
        )  # fmt: skip

    def _frame(self, rows: Rows) -> DataFrame:
        """One task, so that the rows are in order, in one file."""

        def read(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            """A closure, because Spark pickles it as a whole: the URL in it is bytes that no plan
            shows."""
            yield from rows()

        return self._own.range(0, 1, 1, 1).mapInArrow(read, _SPARK_SCHEMA)

    def _write(self, frame: DataFrame, folder: Path) -> tuple[Path, bool]:
        """With `content`, if a VARIANT can hold the JSON of each message."""
        try:
            return _save(with_content(frame, [*SCHEMA.names, CONTENT]), folder / "with"), True
        except Exception as error:
            if is_refused_content(error):
                return _save(frame, folder / "without"), False
            raise

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """Where Spark writes; it is gone afterwards. In the directory itself, so that publishing is
        a rename. A sweep finds what a killed process has left."""
        place = Path(self.location.address) if self.location.is_local else None
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


def _save(frame: DataFrame, folder: Path) -> Path:
    frame.write.options(**_OPTIONS).parquet(f"file://{folder}")
    (path,) = folder.glob("part-*.parquet")
    return path


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
