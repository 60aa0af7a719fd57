"""One file of the archive, and its row groups.

A file is final, so what was read of it may be kept. Row groups are read as a whole, and the last
few are kept for the whole process: the segments of a processor read the same ones.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from milepost.errors import ArchiveFileBroken, ArchiveFileError, ArchiveFileMissing
from milepost.log.history.location import Location
from milepost.log.history.rows import COLUMNS, REPEATED, Rows
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from milepost.log.history.manifest import ArchivedFile
    from milepost.log.selection import Selection
    from milepost.records import RawMessage

NEWEST_FORMAT = 1
_READ = (*COLUMNS, "recorded_at_text", "key_hash")
_PLACES = ("transaction_id", "position")
# To find out whether a row group has anything that is wanted, before its JSON is read.
_NAMED = (*_PLACES, "topic", "type", "key_hash")
_KEYED = (*_NAMED, "key")
_TIMED = (*_PLACES, "recorded_at", "recorded_at_text")
_KEPT_GROUPS, _KEPT_FOOTERS = 4, 64
_BATCH_ROWS = 8192  # of what reads whole files once


@dataclass(frozen=True, slots=True)
class Stretch:
    """The selected messages of one row group: all that the log has after one position, up to and
    including another."""

    after: Position
    last: Position
    selection: Selection
    rows: Rows

    def holds(self, position: Position, selection: Selection) -> bool:
        """Whether it has what follows a position."""
        return self.after <= position < self.last and self.selection == selection

    def read(self, after: Position, up_to: Position, count: int) -> tuple[Rows, Position]:
        """At most `count` messages, and the position up to which all were examined."""
        first, end = self.rows.first_after(after), self.rows.first_after(up_to)
        if end - first <= count:
            return self.rows.slice(first, end), min(up_to, self.last)
        return self.rows.slice(first, first + count), self.rows.position(first + count - 1)


@dataclass(frozen=True)
class ColdFile:
    """A file that was opened, and found to be as the manifest says."""

    file: ArchivedFile
    metadata: pq.FileMetaData

    @classmethod
    def open(cls, file: ArchivedFile) -> ColdFile:
        return _opened(file)

    def stretch(self, after: Position, selection: Selection) -> Stretch:
        """What is selected of the row group that has the messages after a position."""
        columns = _columns_for(selection)
        number, rows, last = self._group_after(after, columns)
        if columns != _READ:
            rows = self.group(number) if len(rows.selected(selection)) else _no_rows()
        return Stretch(after, last, selection, rows.selected(selection))

    def raw(self, position: Position) -> RawMessage | None:
        """The message at a position, undecoded."""
        before = Position(position.transaction_id, position.position - 1)
        _, rows, _ = self._group_after(before, _READ)
        found = rows.slice(rows.first_after(before), rows.first_after(position)).raw()
        return found[0] if found else None

    def position_since(self, time: datetime) -> Position | None:
        """The position before the first message that was recorded at a time or later."""
        for number in range(self.metadata.num_row_groups):
            rows = _read(self, number, _TIMED)
            if (row := rows.first_since(time)) is not None:
                found = rows.position(row)
                return Position(found.transaction_id, found.position - 1)
        return None

    def group(self, number: int) -> Rows:
        return _group(self.file, number)

    def _group_after(
        self, position: Position, columns: Sequence[str]
    ) -> tuple[int, Rows, Position]:
        """The first row group that has a message after a position; its number, its rows, and the
        position up to which the log has no others. The last one if none has."""
        numbers = range(self.metadata.num_row_groups)
        for number in numbers[:-1]:
            if not self._is_before(number, position):
                rows = self._columns_of(number, columns)
                if len(rows) and rows.last > position:
                    return number, rows, rows.last
        if not numbers:
            return 0, _no_rows(), self.file.last
        return numbers[-1], self._columns_of(numbers[-1], columns), self.file.last

    def _columns_of(self, number: int, columns: Sequence[str]) -> Rows:
        return self.group(number) if columns == _READ else _read(self, number, columns)

    @cached_property
    def _columns(self) -> dict[str, int]:
        names = (self.metadata.schema.column(i).path for i in range(self.metadata.num_columns))
        return {name: i for i, name in enumerate(names)}

    def _is_before(self, number: int, position: Position) -> bool:
        """Whether no message of the row group comes after a position, by its statistics."""
        group = self.metadata.row_group(number)
        ids, positions = (group.column(self._columns[name]).statistics for name in _PLACES)
        if ids is None or positions is None or not (ids.has_min_max and positions.has_min_max):
            return False
        # In transaction order the highest position may be of a transaction before the last one.
        return bool(Position(ids.max, positions.max) <= position)


def _columns_for(selection: Selection) -> Sequence[str]:
    """What to read first, to find out whether a row group has anything that is selected."""
    if selection.key is not None:
        return _KEYED
    is_named = selection.topics is not None or selection.types is not None
    return _NAMED if is_named else _READ


def forget_files() -> None:
    """Free the memory of what was read."""
    _group.cache_clear()
    _opened.cache_clear()


@lru_cache(_KEPT_FOOTERS)
def _opened(file: ArchivedFile) -> ColdFile:
    """Whoever reads a whole file notices damage by the checksums of its pages. But whoever skips a
    row group relies on the footer, which has none; so what is near is compared as a whole."""
    if file.format_version > NEWEST_FORMAT:
        newest = f"this version of Milepost reads formats up to {NEWEST_FORMAT}"
        raise ArchiveFileBroken(file.address, f"its format is {file.format_version}, and {newest}")
    place = Location(file.location)
    path, system = place.path(file.name), place.filesystem()
    with _explained(file.address):
        found = system.get_file_info(path)
        if not found.is_file:
            raise ArchiveFileMissing(file.address)
        _refuse_other(file, "bytes", found.size, file.bytes)
        if _is_near(place):
            _refuse_other(file, "SHA-256", _sha256(path), file.sha256)
        metadata = pq.read_metadata(path, filesystem=system)
    _refuse_other(file, "messages", metadata.num_rows, file.messages)
    if missing := set(_READ) - set(metadata.schema.names):
        raise ArchiveFileBroken(file.address, f"it has no column {min(missing)}")
    return ColdFile(file, metadata)


def _is_near(place: Location) -> bool:
    return place.is_local


def _sha256(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123 - a path of the file system's
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refuse_other(file: ArchivedFile, what: str, found: object, expected: object) -> None:
    if found != expected:
        problem = f"its {what}: {found}, and the manifest says {expected}"
        raise ArchiveFileBroken(file.address, problem)


@contextmanager
def _explained(address: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ArchiveFileMissing(address) from error
    except (pa.ArrowException, OSError) as error:
        problem = str(error).partition("\n")[0] or type(error).__name__
        raise ArchiveFileBroken(address, problem) from error


@lru_cache(_KEPT_GROUPS)
def _group(file: ArchivedFile, number: int) -> Rows:
    return _read(ColdFile.open(file), number, _READ)


def _read(opened: ColdFile, number: int, columns: Sequence[str]) -> Rows:
    """What cannot be read is opened again the next time: it may be restored, and the footer that is
    kept may be that of the wrong file."""
    try:
        return _read_group(opened, number, columns)
    except ArchiveFileError:
        _opened.cache_clear()
        raise


def _read_group(opened: ColdFile, number: int, columns: Sequence[str]) -> Rows:
    """With the footer that was checked: the one that is there now may be another."""
    file = opened.file
    place = Location(file.location)
    with (
        _explained(file.address),
        pq.ParquetFile(
            place.path(file.name),
            filesystem=place.filesystem(),
            metadata=opened.metadata,
            read_dictionary=list(REPEATED),
            pre_buffer=not place.is_local,
            page_checksum_verification=True,
        ) as parquet,
    ):
        rows = Rows(parquet.read_row_group(number, columns=list(columns)).combine_chunks())
    if len(rows) and not (file.after < rows.position(0) and rows.last <= file.last):
        problem = f"it has messages from {rows.position(0)} to {rows.last}"
        raise ArchiveFileBroken(file.address, f"{problem}, outside of its range")
    return rows


@lru_cache(maxsize=1)
def _no_rows() -> Rows:
    """Made at the first use: pyarrow then imports pandas, which takes half a second. Each process
    that Spark starts imports this module."""
    schema = pa.schema(
        [
            *((name, pa.dictionary(pa.int32(), pa.string())) for name in REPEATED),
            *((name, pa.string()) for name in ("data", "key", "metadata", "id")),
            *((name, pa.int64()) for name in (*_PLACES, "key_hash")),
            ("recorded_at", pa.timestamp("us", tz="UTC")),
            ("recorded_at_text", pa.string()),
        ]
    )
    return Rows(schema.empty_table())


def batches_of(file: ArchivedFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of every message, in order. Nothing is kept: for what reads whole files once."""
    opened = ColdFile.open(file)
    place, found = Location(file.location), 0
    with (
        _explained(file.address),
        pq.ParquetFile(
            place.path(file.name), filesystem=place.filesystem(), page_checksum_verification=True
        ) as source,
    ):
        for batch in source.iter_batches(_BATCH_ROWS, columns=list(columns)):
            found += batch.num_rows
            if batch.num_rows:
                yield batch.select(list(columns))
    _refuse_other(opened.file, "messages", found, file.messages)


def has_key(location: Location, name: str, key: str) -> bool:
    """Whether a file has a message of a key. The manifest need not name the file."""
    with (
        _explained(location.file_address(name)),
        pq.ParquetFile(
            location.path(name), filesystem=location.filesystem(), page_checksum_verification=True
        ) as source,
    ):
        for number in range(source.num_row_groups):
            if not _may_have_key(source.metadata.row_group(number), key):
                continue
            keys = source.read_row_group(number, columns=["key"]).column("key")
            if pc.any(pc.equal(keys, key)).as_py():
                return True
    return False


def _may_have_key(group: pq.RowGroupMetaData, key: str) -> bool:
    """By the statistics. They compare bytes, which for UTF-8 is the order of characters."""
    columns = (group.column(i) for i in range(group.num_columns))
    statistics = next(c.statistics for c in columns if c.path_in_schema == "key")
    if statistics is None or not statistics.has_min_max:
        return True
    return bool(statistics.min <= key <= statistics.max)


def read_columns(file: ArchivedFile, number: int, columns: Sequence[str]) -> pa.Table:
    """Some columns of a row group. They are not kept."""
    place = Location(file.location)
    with (
        _explained(file.address),
        pq.ParquetFile(
            place.path(file.name), filesystem=place.filesystem(), page_checksum_verification=True
        ) as opened,
    ):
        return opened.read_row_group(number, columns=list(columns))
