"""What the tests of the archive share: a log with messages, and an archiver that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

from milepost import Message, Milepost, Position, append
from milepost.archive import FileSize, list_files
from milepost.archive.archiver import Archiver
from milepost.db import Connection
from milepost.log.history import ArchivedFile
from milepost.records import RecordedMessage
from milepost.retry import Retry

PATIENCE_SECONDS = 100.0  # with an archiver that ends archivers of its own, each in its time
QUICK = Retry(limit=2, first_seconds=0.01, longest_seconds=0.05)


def numbered(conn: Connection, count: int, size: int = 0) -> list[Position]:
    """In transactions of ten, with keys, topics and types to choose from."""
    messages = [
        Message(
            f"Type{n % 3}",
            {"n": n, "padding": "x" * size},
            key=f"key-{n % 7}",
            topic=f"topic-{n % 2}",
        )
        for n in range(count)
    ]
    found: list[Position] = []
    for start in range(0, count, 10):
        found += append(conn, *messages[start : start + 10])
    return found


def made_older(conn: Connection, positions: list[Position], interval: str = "2 hours") -> None:
    conn.execute(
        "update milepost.messages set recorded_at = recorded_at - %s::interval "
        "where position = any(%s)",
        [interval, [position.position for position in positions]],
    )


def left(conn: Connection) -> list[Position]:
    """What is in the table."""
    rows = conn.execute("select transaction_id, position from milepost.messages order by 1, 2")
    return [Position(*row) for row in rows]


def everything(mp: Milepost) -> list[RecordedMessage]:
    return list(mp.read())


def files(conn: Connection) -> list[ArchivedFile]:
    return list_files(conn, "milepost")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@dataclass(slots=True)
class Running:
    """A member in a thread of its own; what it raises reaches the test."""

    run: Callable[[Event], None]
    stop: Event = field(default_factory=Event)
    error: BaseException | None = None
    thread: Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = Thread(target=self._run, name="archiver", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.run(self.stop)
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self.error = error

    def end(self) -> None:
        self.stop.set()
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive(), "it did not end"
        if self.error is not None:
            raise self.error


@contextmanager
def running(archiver: Archiver) -> Iterator[Running]:
    """Until the end of the block, in which it must not fail."""
    instance = Running(lambda stop: archiver.run("stopped", stop))
    try:
        yield instance
    finally:
        instance.end()


def archiver_of(
    mp: Milepost, size: FileSize | None = None, retry: Retry = QUICK, standby: Retry = QUICK
) -> Archiver:
    return Archiver(mp._runtime, size or FileSize(), retry, standby)


def archive_all(mp: Milepost, size: FileSize | None = None) -> None:
    archiver_of(mp, size).run("caught_up")
