"""Erase all messages of a key: from the table, from the files, and from what was set aside.

The order matters. Once the table does not have them, the archiver is fenced: what it has read
before cannot come into the archive any more. Then the files are rewritten. Files that the manifest
does not name are removed if they have the key. It can be repeated, after any interruption, until
nothing is found.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from milepost import db
from milepost.archive.publish import FileName
from milepost.archive.range_archiver import ARCHIVER, tag_of
from milepost.archive.retention import FIRST_STEP, next_step
from milepost.archive.stored import remove_stored
from milepost.archive.upkeep.manifest import all_files, every_file, is_named
from milepost.archive.upkeep.rewrite import rewritten, swap
from milepost.archive.upkeep.sweep import is_scratch, listed, owner_of, remove_unnamed, unnamed
from milepost.checkpoints import columns
from milepost.errors import ArchiveFileBroken, ArchiveFileError, ArchiveFileMissing
from milepost.log.history import Location
from milepost.log.history.cold import forget_files, has_key
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from milepost.archive.stored import StoredFile
    from milepost.db import Connection
    from milepost.log.history import ArchivedFile

_LETTERS = 100  # dropped in one transaction


@dataclass(frozen=True, slots=True)
class Erasure:
    """What was erased: messages of the table; messages of files that were rewritten; files that the
    manifest did not name any more; dead letters, with parked ones.

    What was not: `letters_left`, which a processor is handling now; `files_left`, which have been
    replaced, but may belong to another database too; `not_examined`, which the manifest does not
    name, and which cannot be read; and `files_of_others`, which the manifest does not name and
    which another database may own. `targets`: tables of pipelines, where what was derived from
    messages still is."""

    messages: int
    files: int
    archived_messages: int
    strays: int
    letters: int
    letters_left: int
    files_left: Sequence[str]
    not_examined: Sequence[str]
    files_of_others: int
    targets: Sequence[str]

    @property
    def is_complete(self) -> bool:
        """Nothing is left that has the key, or may have it."""
        left = self.letters_left + self.files_of_others
        return not (left or self.files_left or self.not_examined)

    @property
    def is_nothing(self) -> bool:
        """Nothing was found: it need not be repeated."""
        found = self.messages + self.files + self.strays + self.letters + self.letters_left
        return not (found or self.files_left or self.not_examined)


def erase(
    conn: Connection,
    schema: str,
    key: str,
    *,
    other_databases: bool = False,
    on_progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Erasure:
    """Erase the messages of a key. Old files that another database has written are removed with
    `other_databases` only: it may still use them. The connection must be in autocommit mode."""
    with db.owning(conn, schema):
        messages = _erase_from_table(conn, schema, key)
        db.run(conn, schema, "archive_fence", processor=ARCHIVER.processor)
        files = _Files(conn, schema, key, tag_of(conn, schema), other_databases)
        files.rewrite(on_progress)
        strays = _Strays(conn, schema, key)
        strays.remove(other_databases=other_databases)
        letters, left = _erase_letters(conn, schema, key)
        targets = [name for (name,) in db.fetch_all(conn, schema, "pipeline_targets")]
    forget_files()
    return Erasure(
        messages=messages,
        files=files.number,
        archived_messages=files.messages,
        strays=strays.removed,
        letters=letters,
        letters_left=left,
        files_left=files.left,
        not_examined=strays.not_examined,
        files_of_others=strays.of_others,
        targets=targets,
    )


def _erase_from_table(conn: Connection, schema: str, key: str) -> int:
    """There is no index on the key: the table is read in steps, each a transaction of its own."""
    after, number, step = Position.BEGINNING, 0, FIRST_STEP
    while True:
        begun = time.monotonic()
        erased, *reached = db.fetch_one(
            conn, schema, "erase_messages", key=key, max_count=step, **columns(after)
        )
        number += int(erased)
        if reached == [None, None]:
            return number
        after, step = Position(*reached), next_step(step, time.monotonic() - begun)


@dataclass(slots=True)
class _Files:
    """Rewrites the files that have the key, and removes the old ones immediately: readers that hold
    a name find the new one."""

    conn: Connection
    schema: str
    key: str
    database: str
    other_databases: bool
    number: int = field(default=0, init=False)
    messages: int = field(default=0, init=False)
    left: list[str] = field(default_factory=list, init=False)

    def rewrite(self, on_progress: Callable[[str, int, int], None]) -> None:
        total, done = sum(file.messages for file in all_files(self.conn, self.schema)), 0
        for file in every_file(self.conn, self.schema):
            on_progress("examining", done, max(total, done))
            done += file.messages
            try:
                self._rewrite(file)
            except ArchiveFileError:
                if is_named(self.conn, self.schema, file):
                    raise
                # It was replaced, and what has replaced it is examined too.

    def _rewrite(self, file: ArchivedFile) -> None:
        location = Location(file.location)
        if not has_key(location, file.name, self.key):
            return
        new = rewritten([file], location, self.database, self._others)
        if not swap(self.conn, self.schema, [file], new):
            return
        self.number, self.messages = self.number + 1, self.messages + file.messages - new.messages
        name = FileName.parse(file.name)
        if self.other_databases or (name is not None and name.database == self.database):
            remove_stored(location, file.name)
            db.run(self.conn, self.schema, "archive_replaced_gone", names=[file.name])
        else:
            self.left.append(file.address)

    def _others(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        is_other = pc.fill_null(pc.not_equal(batch.column("key"), self.key), fill_value=True)
        return batch.filter(is_other)


@dataclass(slots=True)
class _Strays:
    """Files of a process that was killed or overtaken, and files that were replaced: they would
    have the key until a sweep removes them. None of them can be added to the manifest any more."""

    conn: Connection
    schema: str
    key: str
    removed: int = field(default=0, init=False)
    of_others: int = field(default=0, init=False)
    not_examined: list[str] = field(default_factory=list, init=False)

    def remove(self, *, other_databases: bool) -> None:
        owner = owner_of(self.conn, self.schema)
        for file in unnamed(self.conn, self.schema, listed(self.conn, self.schema)):
            if not (other_databases or owner.owns(file)):
                self.of_others += 1
            elif (found := _has_key(file, self.key)) is None:
                self.not_examined.append(file.address)
            elif found:
                gone = remove_unnamed(self.conn, self.schema, [file], timedelta(0))
                self.removed += len(gone)


def _has_key(file: StoredFile, key: str) -> bool | None:
    """None: it is not complete."""
    try:
        return None if is_scratch(file) else has_key(file.location, file.name, key)
    except ArchiveFileMissing:
        return False
    except ArchiveFileBroken:
        return None


def _erase_letters(conn: Connection, schema: str, key: str) -> tuple[int, int]:
    dropped = 0
    while True:
        number, left = db.fetch_one(conn, schema, "erase_letters", key=key, max_count=_LETTERS)
        dropped += number
        if not number:
            return dropped, left
