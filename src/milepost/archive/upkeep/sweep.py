"""Remove files that nothing refers to: those of a process that was killed, and those that were
replaced.

The order is what makes it safe. First the places are listed, then the manifest is asked about what
was found, while nobody is about to add a file: what was added after the listing is not in the
listing, and what was added before is in the manifest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from milepost import db
from milepost.archive.publish import FileName
from milepost.archive.range_archiver import tag_of
from milepost.archive.stored import (
    StoredFile,
    lock_files,
    places,
    remove_stored,
    stored_files,
)
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from milepost.db import Connection
    from milepost.log.history import Location

OLDER_THAN = timedelta(hours=1)
# The lock is held while so many files are removed. An archiver that has a file to add waits.
_STEP = 20
_SCRATCH = re.compile(r"\..+\.parquet\.tmp")


@dataclass(frozen=True, slots=True)
class Swept:
    """`removed`: with `dry_run`, what would be. `young`: files that may be in use. `of_others`:
    those that another database may own. They are only counted, unless they were asked for."""

    removed: Sequence[StoredFile]
    young: int
    of_others: int

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.removed)


@dataclass(frozen=True, slots=True)
class Owner:
    """What tells a file that this database has left behind: it begins within its archive. One that
    begins after the end was written by another database, or before a restore; and one that begins
    before the archive does may be all that is left of a former archive."""

    database: str
    begin: Position
    end: Position

    def owns(self, file: StoredFile) -> bool:
        name = FileName.parse(file.name)
        if name is None:
            return is_scratch(file)
        return name.database == self.database and self.begin <= name.after <= self.end


def sweep(
    conn: Connection,
    schema: str,
    *,
    older_than: timedelta = OLDER_THAN,
    dry_run: bool = False,
    other_databases: bool = False,
    also_in: Sequence[Location] = (),
) -> Swept:
    """Only what was written, or replaced, longer ago than `older_than`: a process may be about to
    add it to the manifest, and a reader may hold its name. `also_in`: places that this log does not
    know any more."""
    with db.owning(conn, schema):
        owner = owner_of(conn, schema)
        strays = unnamed(conn, schema, listed(conn, schema, also_in))
        own = [file for file in strays if other_databases or owner.owns(file)]
        newest = datetime.now(UTC) - older_than
        old = [file for file in own if file.written_at is not None and file.written_at <= newest]
        removed: list[StoredFile] = []
        for first in range(0, len(old), _STEP):
            some = old[first : first + _STEP]
            removed += remove_unnamed(conn, schema, some, older_than, dry_run=dry_run)
    return Swept(removed, len(own) - len(removed), len(strays) - len(own))


def owner_of(conn: Connection, schema: str) -> Owner:
    *begin, transaction_id, position = db.fetch_one(conn, schema, "archive_range")
    return Owner(tag_of(conn, schema), Position(*begin), Position(transaction_id, position))


def listed(conn: Connection, schema: str, also_in: Sequence[Location] = ()) -> list[StoredFile]:
    """All files that may be ours, by their names."""
    found = dict.fromkeys([*places(conn, schema), *also_in])
    return [
        file
        for location in found
        for file in stored_files(location)
        if FileName.parse(file.name) is not None or is_scratch(file)
    ]


def unnamed(conn: Connection, schema: str, files: Sequence[StoredFile]) -> list[StoredFile]:
    """Those that the manifest does not name now, after they were listed."""
    kept = _kept(conn, schema, files, timedelta(0))
    return [file for file in files if file.name not in kept]


def remove_unnamed(
    conn: Connection,
    schema: str,
    files: Sequence[StoredFile],
    older_than: timedelta,
    *,
    dry_run: bool = False,
) -> list[StoredFile]:
    """Remove those that the manifest does not name, and that were not replaced a short time ago."""
    with db.translated(schema, who=conn), conn.transaction():
        lock_files(conn, schema)
        kept = _kept(conn, schema, files, older_than)
        removed = [file for file in files if file.name not in kept]
        if not dry_run:
            for file in removed:
                remove_stored(file.location, file.name, is_folder=file.is_folder)
            db.run(conn, schema, "archive_replaced_gone", names=[file.name for file in removed])
    return removed


def is_scratch(file: StoredFile) -> bool:
    """A file that was being written. One that is still being written is not old."""
    return file.is_folder or _SCRATCH.fullmatch(file.name) is not None


def _kept(
    conn: Connection, schema: str, files: Iterable[StoredFile], older_than: timedelta
) -> set[str]:
    names = [file.name for file in files]
    rows = db.fetch_all(conn, schema, "archive_kept", names=names, older_than=older_than)
    return {name for (name,) in rows}
