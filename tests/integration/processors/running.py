"""An instance of a processor in a thread of its own; what it raises reaches the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

from milepost.db import Connection
from milepost.processors import Processor
from milepost.processors.runner import Runner
from milepost.records import Position, RecordedMessage
from milepost.runtime import Stop
from tests.waiting import wait_until

PATIENCE_SECONDS = 60.0


@dataclass(slots=True)
class Instance:
    """A running instance. `error` is what ended it, if anything did."""

    processor: Processor
    stop: Event = field(default_factory=Stop)
    error: BaseException | None = None
    _runner: Runner = field(init=False)
    _thread: Thread = field(init=False)

    def __post_init__(self) -> None:
        self._runner = self.processor.runner(self.stop)
        self._thread = Thread(target=self._run, name="instance", daemon=True)
        self._thread.start()

    @property
    def owner(self) -> str:
        return self._runner.owner

    def ends(self) -> BaseException | None:
        """Waits for it to end; what it ended with."""
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the instance did not end"
        return self.error

    def has_connected(self) -> bool:
        """Whether it has begun: a first connection that fails is an error, a later one is not."""
        return self._runner.supervisor.was_connected

    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._runner.run()
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self.error = error


@contextmanager
def running(*processors: Processor) -> Iterator[list[Instance]]:
    """Instances that run until the end of the block and must not fail in it. What one failed
    with is the reason why the block waited in vain, if it did."""
    instances = [Instance(processor) for processor in processors]
    try:
        yield instances
    finally:
        for instance in instances:
            instance.stop.set()
        for instance in instances:
            if (error := instance.ends()) is not None:
                raise error


@dataclass(frozen=True, slots=True)
class Effects:
    """The table in which handlers leave a row for every message they handled. It has no unique
    constraint, so that what happened twice shows."""

    conn: Connection

    def positions(self) -> list[Position]:
        """In the order in which the rows were written."""
        rows = self.conn.execute("select transaction_id, position from effects order by number")
        return [Position(*row) for row in rows]

    def count(self) -> int:
        return len(self.positions())

    def wait_for(self, count: int) -> None:
        wait_until(lambda: self.count() >= count, PATIENCE_SECONDS)


def leave(message: RecordedMessage, tx: Connection) -> None:
    """The effect of one message."""
    position = message.position
    tx.execute(
        "insert into effects (transaction_id, position) values (%s, %s)",
        [position.transaction_id, position.position],
    )


def leave_all(messages: list[RecordedMessage], tx: Connection) -> None:
    for message in messages:
        leave(message, tx)
