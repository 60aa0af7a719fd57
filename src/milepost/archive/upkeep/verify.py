"""Compare the files of the archive with the manifest, and the manifest with the log.

All problems are reported, not only the first. A file that is replaced meanwhile is no problem: the
one that replaces it is examined instead.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from milepost import db
from milepost.archive.parquet_file import Facts
from milepost.archive.upkeep.manifest import all_files, every_file, is_named
from milepost.errors import ArchiveFileBroken, ArchiveFileError, ArchiveFileMissing
from milepost.log.history import Location
from milepost.log.history.cold import batches_of
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from milepost.db import Connection
    from milepost.log.history import ArchivedFile

_CHUNK = 8 * 1024 * 1024
_EXAMINED = ("transaction_id", "position", "topic", "type", "recorded_at")


@dataclass(frozen=True, slots=True)
class Problem:
    """`address`: of the file. None if it is the manifest that is wrong."""

    address: str | None
    text: str

    def __str__(self) -> str:
        return self.text if self.address is None else f"{self.address}: {self.text}"


@dataclass(frozen=True, slots=True)
class Verification:
    files: int
    messages: int
    bytes: int
    problems: Sequence[Problem]


def verify(
    conn: Connection,
    schema: str,
    *,
    quick: bool = False,
    on_progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Verification:
    """`quick`: whether the files are there and have their size. Otherwise they are read as a
    whole."""
    problems = list(_of_chain(conn, schema))
    files = messages = size = 0
    total = sum(file.messages for file in all_files(conn, schema))
    for file in every_file(conn, schema):
        on_progress("verifying", messages, max(total, messages))
        found = list(_of_file(file, quick=quick))
        if found and not is_named(conn, schema, file):
            continue
        problems += found
        files, messages, size = files + 1, messages + file.messages, size + file.bytes
    on_progress("verifying", messages, max(total, messages))
    return Verification(files, messages, size, problems)


def _of_chain(conn: Connection, schema: str) -> Iterator[Problem]:
    """The constraints of the table promise most of it, unless they were dropped."""
    end, removed, archives = _ends(conn, schema)
    files = all_files(conn, schema)  # later: it may have grown, and never shrinks
    for before, after in pairwise(files):
        if before.last != after.after:
            text = f"the manifest has a gap: {before.last} to {after.after} is in no file"
            yield Problem(None, text)
    if files and files[-1].last < end:
        yield Problem(None, f"the manifest ends at {files[-1].last}, and the archive at {end}")
    if archives and removed > end:
        text = f"messages were removed up to {removed}, but archived only up to {end}"
        yield Problem(None, text)


def _ends(conn: Connection, schema: str) -> tuple[Position, Position, bool]:
    *places, archives = db.fetch_one(conn, schema, "archive_ends")
    return Position(*places[:2]), Position(*places[2:]), archives


def _of_file(file: ArchivedFile, *, quick: bool) -> Iterator[Problem]:
    try:
        _check_size(file)
        if not quick:
            _check_hash(file)
            yield from _of_messages(file)
    except ArchiveFileMissing:
        yield Problem(file.address, "it is not there")
    except ArchiveFileBroken as error:
        yield Problem(file.address, error.problem)
    except ArchiveFileError as error:
        yield Problem(file.address, str(error))


def _check_size(file: ArchivedFile) -> None:
    place = Location(file.location)
    try:
        info = place.filesystem().get_file_info(place.path(file.name))
    except OSError as error:
        raise ArchiveFileBroken(file.address, str(error)) from error
    if not info.is_file:
        raise ArchiveFileMissing(file.address)
    if info.size != file.bytes:
        problem = f"it has {info.size} bytes, and the manifest says {file.bytes}"
        raise ArchiveFileBroken(file.address, problem)


def _check_hash(file: ArchivedFile) -> None:
    place, found = Location(file.location), hashlib.sha256()
    try:
        with place.filesystem().open_input_stream(place.path(file.name)) as source:
            while chunk := source.read(_CHUNK):
                found.update(chunk)
    except FileNotFoundError as error:
        raise ArchiveFileMissing(file.address) from error
    except OSError as error:
        raise ArchiveFileBroken(file.address, str(error)) from error
    if found.hexdigest() != file.sha256:
        problem = f"its SHA-256 is {found.hexdigest()}, and the manifest says {file.sha256}"
        raise ArchiveFileBroken(file.address, problem)


def _of_messages(file: ArchivedFile) -> Iterator[Problem]:
    facts, last = Facts(), file.after
    for batch in batches_of(file, _EXAMINED):
        table = pa.Table.from_batches([batch])
        if (wrong := _out_of_order(batch, last)) is not None:
            yield Problem(file.address, f"the message at {wrong} does not follow the one before it")
            return
        facts.add(table)
        last = facts.last or last
    if last > file.last:
        yield Problem(file.address, f"it has the message at {last}, after its range")
    for what, found, said in (
        ("messages", facts.messages, file.messages),
        ("topics", _names(facts.listed_topics), _names(file.topics)),
        ("types", _names(facts.listed_types), _names(file.types)),
        ("times", facts.times, (file.recorded_from, file.recorded_to)),
    ):
        if found != said:
            yield Problem(file.address, f"its {what} are {found}, and the manifest says {said}")


def _out_of_order(batch: pa.RecordBatch, after: Position) -> Position | None:
    """The first position that is not above the one before it."""
    ids, positions = (batch.column(name) for name in ("transaction_id", "position"))
    before_ids = pa.concat_arrays([pa.array([after.transaction_id], pa.int64()), ids[:-1]])
    before = pa.concat_arrays([pa.array([after.position], pa.int64()), positions[:-1]])
    is_above = pc.or_(
        pc.greater(ids, before_ids),
        pc.and_(pc.equal(ids, before_ids), pc.greater(positions, before)),
    )
    row = pc.index(is_above, value=False).as_py()
    return None if row < 0 else Position(ids[row].as_py(), positions[row].as_py())


def _names(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)
