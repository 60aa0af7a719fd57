"""An archive with real files, made range by range."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from milepost import Message, Position, adbc, append, db
from milepost.archive.range_archiver import ARCHIVER, RangeArchiver, tag_of
from milepost.checkpoints import PostgresCheckpointStore
from milepost.db import Connection
from milepost.log.history import ArchivedFile, Location, files_between

LATEST = Position(2**63 - 1, 2**63 - 1)


class _Held(RangeArchiver):
    def commit(self, file: ArchivedFile) -> None:
        pass


@dataclass(frozen=True)
class Archiving:
    """Archives what a test says, and removes it from the table."""

    conn: Connection
    arrow: adbc.Connection
    location: Location

    def archive(self, last: Position) -> ArchivedFile:
        """From the end of the archive up to a position."""
        return self._archive(RangeArchiver, last)

    def publish(self, last: Position) -> ArchivedFile:
        """As an archiver that is held before it adds its file to the manifest."""
        return self._archive(_Held, last)

    def commit(self, file: ArchivedFile) -> None:
        """It continues."""
        self._archiver(RangeArchiver, file.epoch).commit(file)

    def _archive(self, kind: type[RangeArchiver], last: Position) -> ArchivedFile:
        store = PostgresCheckpointStore(self.conn)
        after = store.first(ARCHIVER, lambda: Position.BEGINNING, "test")
        return self._archiver(kind, after.epoch).archive(after.position, last)

    def _archiver(self, kind: type[RangeArchiver], epoch: int) -> RangeArchiver:
        tag = tag_of(self.conn, "milepost")
        return kind(self.conn, self.arrow, "milepost", self.location, epoch, "test", tag)

    def archive_each(self, ranges: Sequence[Sequence[Position]]) -> list[ArchivedFile]:
        """One file for each."""
        return [self.archive(positions[-1]) for positions in ranges]

    def files(self) -> list[ArchivedFile]:
        return files_between(self.conn, "milepost", Position.BEGINNING, LATEST)

    @property
    def directory(self) -> Path:
        return Path(self.location.address)

    def age(self, seconds: float) -> None:
        """As if everything in the directory had been written before."""
        for path in [*self.directory.rglob("*")]:
            os.utime(path, (time.time() - seconds,) * 2)

    def names(self) -> set[str]:
        """What is in the directory."""
        return {path.name for path in self.directory.iterdir()}


@contextmanager
def archiving(url: str, location: Location) -> Iterator[Archiving]:
    with db.connect(url) as conn, closing(adbc.connect(db.conninfo(url))) as arrow:
        yield Archiving(conn, arrow, location)


def append_ranges(conn: Connection, count: int, size: int, keys: int = 7) -> list[list[Position]]:
    """So many ranges of so many messages, with repeated keys, some without one."""
    return [
        append(
            conn,
            *(
                Message(
                    f"Type{n % 3}",
                    {"n": number * size + n, "amount": n},
                    key=None if n % keys == 0 else f"k{n % keys}",
                    topic=f"topic{n % 2}",
                )
                for n in range(size)
            ),
        )
        for number in range(count)
    ]


def remove(conn: Connection, last: Position) -> None:
    """From the table, as retention does."""
    with conn.transaction():
        pair = [last.transaction_id, last.position]
        conn.execute(
            "delete from milepost.messages where (transaction_id, position) <= (%s, %s)", pair
        )
        conn.execute(
            "update milepost.log set removed_transaction_id = %s, removed_position = %s", pair
        )


def use_archive(conn: Connection, location: Location) -> None:
    """As `milepost retention set --archive` does."""
    conn.execute(
        "insert into milepost.retention (archive) values (%s) "
        "on conflict (is_only) do update set archive = excluded.archive",
        [location.address],
    )
