"""What is in the places of an archive: files that the manifest names, and others.

A listing never says what is archived. It is taken to find what is left over.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost import db
from milepost.errors import ArchiveUnreachable, ArchiveUnwritable
from milepost.log.history import Location

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pyarrow import fs

    from milepost.db import Connection
    from milepost.log.history import ArchivedFile


# What the names of folders begin with in which Spark writes files before they are published.
SPARK_FOLDER = ".milepost-spark-"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """`written_at`: by the clock of the place. None if the place does not tell. A folder in which
    Spark writes counts as one file, as old as the newest in it."""

    location: Location
    name: str
    bytes: int
    written_at: datetime | None
    is_folder: bool = False

    @property
    def address(self) -> str:
        return self.location.file_address(self.name)


def places(conn: Connection, schema: str) -> list[Location]:
    """Where files of this log are, or have been: that of the policy, and those of the manifest."""
    return [Location(address) for (address,) in db.fetch_all(conn, schema, "archive_places")]


def stored_files(location: Location) -> list[StoredFile]:
    """All files of a place, ours and others. None if the directory does not exist."""
    found = _listed(location, "")
    folders = [info.base_name for info in found if _is_folder_of_spark(info)]
    return [
        StoredFile(location, info.base_name, info.size, info.mtime)
        for info in found
        if info.is_file
    ] + [_folder(location, name) for name in folders]


def _listed(location: Location, folder: str, *, recursive: bool = False) -> list[fs.FileInfo]:
    from pyarrow import fs

    with _explained(location):
        base = location.path(folder).rstrip("/")
        selector = fs.FileSelector(base, allow_not_found=True, recursive=recursive)
        found: list[fs.FileInfo] = location.filesystem().get_file_info(selector)
    return found


def _is_folder_of_spark(info: fs.FileInfo) -> bool:
    return not info.is_file and info.base_name.startswith(SPARK_FOLDER)


def _folder(location: Location, name: str) -> StoredFile:
    inside = _listed(location, name, recursive=True)
    with _explained(location):
        inside.append(location.filesystem().get_file_info(location.path(name)))
    times = [info.mtime for info in inside if info.mtime is not None]
    size = sum(info.size or 0 for info in inside)
    return StoredFile(location, name, size, max(times, default=None), is_folder=True)


def remove_stored(location: Location, name: str, *, is_folder: bool = False) -> bool:
    """Whether it was there."""
    system = location.filesystem()
    with _explained(location), suppress(FileNotFoundError):
        (system.delete_dir if is_folder else system.delete_file)(location.path(name))
        return True
    return False


def lock_manifest(conn: Connection, schema: str, *new: ArchivedFile) -> None:
    """Until the end of the transaction, nobody else changes the manifest, and nobody sweeps. So the
    files that this transaction adds are still there when it commits.

    An object store may answer slowly: it is asked while only sweeps wait, before the manifest is
    locked."""
    db.run(conn, schema, "archive_keep_files")
    for file in new:
        _refuse_absent(file)
    db.run(conn, schema, "archive_lock")


def lock_files(conn: Connection, schema: str) -> None:
    """Until the end of the transaction, nobody adds files to the manifest: who has found that a
    file is there has committed, and who has not looks later."""
    db.run(conn, schema, "archive_sweep_files")


def _refuse_absent(file: ArchivedFile) -> None:
    place = Location(file.location)
    try:
        info = place.filesystem().get_file_info(place.path(file.name))
    except OSError as error:
        raise ArchiveUnwritable(place.address, str(error)) from error
    if not info.is_file:
        problem = f"the file {file.name} was removed before it was added to the manifest"
        raise ArchiveUnwritable(place.address, problem)


@contextmanager
def _explained(location: Location) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ArchiveUnreachable(location.address, str(error)) from error
