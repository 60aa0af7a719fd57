"""Read what was removed from the table, file after file, until the table goes on.

Rows are read from the table as long as they are there: it is always within reach, and a file may
be on another host. Once a position was removed, its file is read, and the ones that follow. At the
end of the archive the table continues, cut by position: nothing is read twice, nothing is skipped.

Messages only ever move from the table to the archive: a file is in the manifest before its rows
are removed. So the table is asked first, and then the manifest. Asked the other way round, both
could say that they do not have a message that moves meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost.errors import ArchiveFileError, ArchiveNotInstalled
from milepost.log.history.manifest import (
    ArchivedFile,
    archived_file,
    file_after,
    file_after_statement,
    files_since,
)
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from datetime import datetime

    from milepost.db import Connection, Statement
    from milepost.log.history.cold import ColdFile, Stretch
    from milepost.log.selection import Selection
    from milepost.records import RawMessage, RecordedMessage


@dataclass(slots=True)
class History:
    """What one reader knows of the archive: the file that it is in, if any, and what it has read of
    it. For one reader in one thread."""

    schema: str
    _file: ArchivedFile | None = field(default=None, init=False)
    _stretch: Stretch | None = field(default=None, init=False)

    def find(self, conn: Connection, after: Position) -> bool:
        """Whether the archive has what follows a position."""
        if self._file is None or not self._file.holds(after):
            self._enter(file_after(conn, self.schema, after))
        return self._file is not None

    def is_in(self, conn: Connection, after: Position) -> bool:
        """The same for a reader that has read from the archive before. It asks only at the end of
        a file; a reader that has not is not asked for anything."""
        return self._file is not None and self.find(conn, after)

    def leave(self) -> None:
        self._enter(None)

    def read(
        self,
        conn: Connection,
        after: Position,
        up_to: Position,
        selection: Selection,
        count: int,
    ) -> tuple[Iterable[RecordedMessage], Position]:
        """At most `count` messages, and the position up to which all were examined, which may be
        before `up_to`: only one row group is read. After `find`."""
        while True:
            file = self._file
            if file is None:
                raise RuntimeError("The archive has no file here: call find() first.")
            if not file.may_have(selection):
                return (), min(up_to, file.last)
            try:
                return self._stretch_of(file, after, selection).read(after, up_to, count)
            except ArchiveFileError:
                # It may have been replaced by another that has the same messages.
                self._enter(file_after(conn, self.schema, after))
                if self._file is None or self._file == file:
                    raise

    def _stretch_of(self, file: ArchivedFile, after: Position, selection: Selection) -> Stretch:
        stretch = self._stretch
        if stretch is None or not stretch.holds(after, selection):
            # The one before first: it need not be in memory with the next one.
            self._stretch = None
            self._stretch = stretch = _opened(file).stretch(after, selection)
        return stretch

    def _enter(self, file: ArchivedFile | None) -> None:
        self._file, self._stretch = file, None


def position_since(conn: Connection, schema: str, time: datetime) -> Position | None:
    """The position after which to read in order to get every message that was removed from the
    table and was recorded at a time or later. None if there is none."""
    while True:
        files = files_since(conn, schema, time)
        try:
            found = (_opened(file).position_since(time) for file in files)
            return next((position for position in found if position is not None), None)
        except ArchiveFileError:
            # As above. A file whose name is still the same will not be there the next time either.
            if files_since(conn, schema, time) == files:
                raise


def raw_at(
    schema: str, position: Position
) -> Generator[Statement, list[tuple[object, ...]], RawMessage | None]:
    """The archived message at a position, undecoded; None if there is none. In steps, for a
    transaction of either colour."""
    before = Position(position.transaction_id, position.position - 1)
    tried: ArchivedFile | None = None
    while True:
        rows = yield file_after_statement(schema, before)
        file = archived_file(rows[0]) if rows else None
        if file is None or file.after >= position:
            return None
        try:
            return _opened(file).raw(position)
        except ArchiveFileError:
            if file == tried:
                raise
            tried = file


def _opened(file: ArchivedFile) -> ColdFile:
    """pyarrow is an extra: most processes never read a file."""
    try:
        from milepost.log.history.cold import ColdFile
    except ImportError:
        raise ArchiveNotInstalled from None
    return ColdFile.open(file)
