"""Replace files of the manifest by others that have the same range.

The new file is durable before. The swap is one transaction, and only if the old rows are exactly
those that were read: otherwise someone else has replaced one of them, and the new file may have
messages that were erased meanwhile.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from psycopg import Rollback

from milepost import db
from milepost.archive.range_archiver import add_to_manifest
from milepost.archive.stored import lock_manifest
from milepost.log.history import files_between
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from milepost.db import Connection
    from milepost.log.history import ArchivedFile

_LATEST = Position(2**63 - 1, 2**63 - 1)


def all_files(conn: Connection, schema: str) -> list[ArchivedFile]:
    """In order."""
    return files_between(conn, schema, Position.BEGINNING, _LATEST)


def every_file(conn: Connection, schema: str) -> Iterator[ArchivedFile]:
    """Each file once, also those that replace others meanwhile, and those that are added."""
    seen: set[str] = set()
    while fresh := [file for file in all_files(conn, schema) if file.name not in seen]:
        for file in fresh:
            seen.add(file.name)
            yield file


def is_named(conn: Connection, schema: str, file: ArchivedFile) -> bool:
    """Whether the manifest still has a file that it had before."""
    return bool(db.fetch_one(conn, schema, "archive_is_named", name=file.name)[0])


def replace_files(
    conn: Connection, schema: str, old: Sequence[ArchivedFile], new: ArchivedFile
) -> bool:
    """Whether the new file, which must be durable, has taken the place of the old ones. If not, the
    manifest has changed since they were read, nothing was done, and the new file is not used.

    The old files stay where they are: a reader may hold their names. `sweep` removes them later."""
    _refuse_other_range(old, new)
    names = [file.name for file in old]
    with db.translated(schema, who=conn), conn.transaction() as transaction:
        lock_manifest(conn, schema, new)
        if db.fetch_one(conn, schema, "archive_replace", names=names)[0] != len(old):
            raise Rollback(transaction)
        add_to_manifest(conn, schema, new)
        return True
    return False


def _refuse_other_range(old: Sequence[ArchivedFile], new: ArchivedFile) -> None:
    is_chain = all(before.last == next_.after for before, next_ in pairwise(old))
    if not old or not is_chain or (old[0].after, old[-1].last) != (new.after, new.last):
        raise ValueError(f"{new.name} does not have the range of the files that it replaces.")
