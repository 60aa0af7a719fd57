"""A reader that follows the log in a thread of its own, as a real one would in a process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from milepost import Milepost, RecordedMessage, db
from milepost.log import Batch, Reader, Start

# Only a wake-up, or looking again while the horizon is held, ends a wait as long as this.
NEVER_SECONDS = 3600.0
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Following:
    """What the reader has seen, batch by batch, empty ones too."""

    batches: queue.Queue[Batch] = field(default_factory=queue.Queue)

    def next_batch(self) -> Batch:
        return self.batches.get(timeout=PATIENCE_SECONDS)

    def until_it_found_nothing(self) -> None:
        """Afterwards the reader listens, has looked, and waits or looks again."""
        while self.next_batch().messages:
            pass

    def messages(self, count: int) -> list[RecordedMessage]:
        """Waits for so many messages."""
        found: list[RecordedMessage] = []
        while len(found) < count:
            found += self.next_batch().messages
        return found

    def types(self, count: int) -> list[str]:
        return [message.type for message in self.messages(count)]


@contextmanager
def following(
    mp: Milepost,
    url: str,
    *,
    start: Start = "beginning",
    poll_seconds: float = NEVER_SECONDS,
    batch_size: int = 1000,
) -> Iterator[Following]:
    seen = Following()
    with mp.reader(start, batch_size=batch_size) as reader:
        pid = reader.conn.info.backend_pid
        thread = threading.Thread(target=_follow, args=(reader, poll_seconds, seen))
        thread.start()
        try:
            yield seen
        finally:
            # The reader waits inside the driver: only its server can end it.
            with db.connect(url) as conn:
                conn.execute("select pg_terminate_backend(%s)", [pid])
            thread.join()
            reader.conn.close()


def _follow(reader: Reader, poll_seconds: float, seen: Following) -> None:
    try:
        for batch in reader.batches(poll_seconds):
            seen.batches.put(batch)
    except psycopg.OperationalError:
        return  # ended by the test
