"""Writers, an archiver that removes and compacts, and readers, all at the same time: every reader
sees the same log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event, Thread

import pytest

from milepost import Message, Milepost, append
from milepost.db import Connection
from milepost.log import Reader, Selection, horizon
from milepost.log.history.cold import forget_files
from milepost.records import RecordedMessage, Segment
from tests.archiving import Archive
from tests.waiting import wait_until

ENOUGH = 4000
SELECTIONS = (Selection(), Selection(types=["T"]), Selection(segment=Segment(1, 1)))


@dataclass
class Together:
    mp: Milepost
    url: str
    folder: Path
    over: Event = field(default_factory=Event)
    errors: list[BaseException] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)
    archive: Archive | None = None  # of the thread that moves

    def start(self, act: Callable[[Connection], object]) -> Thread:
        """Again and again, on a connection of its own."""

        def run() -> None:
            try:
                with self.mp.connect() as own:
                    while not self.over.is_set():
                        act(own)
            except BaseException as error:  # noqa: BLE001 - raised in the test's thread
                self.errors.append(error)
                self.over.set()

        thread = Thread(target=run)
        thread.start()
        return thread

    def write(self, conn: Connection) -> None:
        """Some are rolled back, and leave gaps."""
        with conn.transaction(force_rollback=next(self.numbers) % 5 == 0):
            append(conn, *(Message("T", {"n": n}, key=f"key-{n}") for n in range(20)))

    def move(self, conn: Connection) -> None:
        if self.archive is None:
            self.archive = Archive.at(conn, self.url, self.folder)
        archive = self.archive
        if horizon(conn).position <= archive.end:
            return
        archive.archive()
        files = archive.files()
        archive.remove(files[-2].last if len(files) > 1 else None)
        if len(files) > 4:
            archive.join(files[:3], rows_per_group=30)
            archive.sweep()
            forget_files()


@dataclass
class Follower:
    selection: Selection
    reader: Reader | None = None
    seen: list[RecordedMessage] = field(default_factory=list)

    def read(self, conn: Connection) -> None:
        if self.reader is None:
            self.reader = Reader(conn, selection=self.selection, batch_size=7)
        self.seen += self.reader.read().messages

    def all_of(self, conn: Connection) -> list[RecordedMessage]:
        """With what was appended after its end."""
        assert self.reader is not None
        return self.seen + list(Reader(conn, self.reader.after, self.selection).messages())


@pytest.mark.parametrize("order", ["append", "transaction"])
def test_all_readers_see_the_same_log(mp: Milepost, url: str, tmp_path: Path) -> None:
    together = Together(mp, url, tmp_path / "archive")
    followers = [Follower(selection) for selection in SELECTIONS]
    acts = [together.write, together.write, together.move, *(each.read for each in followers)]
    threads = [together.start(act) for act in acts]
    try:
        wait_until(lambda: together.over.is_set() or len(followers[0].seen) > ENOUGH)
    finally:
        together.over.set()
        for thread in threads:
            thread.join()
    if together.archive is not None:
        together.archive.close()
    if together.errors:
        raise together.errors[0]
    with mp.connect() as conn:
        for follower in followers:
            everything = list(Reader(conn, selection=follower.selection).messages())
            assert follower.all_of(conn) == everything
        assert len({message.position for message in everything}) == len(everything)
