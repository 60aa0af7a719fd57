"""A reader of the torture: starts and stops at random, each time from the position it had
reached, until it has reached the goal that is set once every writer has ended."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from threading import Event

from milepost import db
from milepost.log import EVERYTHING, Batch, Reader, Selection
from milepost.records import Position, RecordedMessage, Segment
from tests.chaos.log.report import Entry

APPLICATION_NAME = "milepost-torture-reader"
BATCH_SIZES = (1, 2, 7, 50, 300, 1000)
# Other tests' or the server's own transactions may hold the horizon of the transaction order.
CATCH_UP_SECONDS = 90.0

SELECTIONS = {
    "everything": EVERYTHING,
    "everything too": EVERYTHING,
    "topic": Selection(topics=["orders", "stock"]),
    "segment": Selection(segment=Segment(1, 3)),
    "topic and segment": Selection(topics=["orders"], types=["Written"], segment=Segment(0, 1)),
}


@dataclass(slots=True)
class Goal:
    """The end of the log, once it is known; `stop` ends the readers without it."""

    position: Position | None = None
    deadline: float = 0.0
    stop: Event = field(default_factory=Event)

    def set(self, position: Position) -> None:
        self.deadline = time.monotonic() + CATCH_UP_SECONDS
        self.position = position

    def is_reached(self, after: Position) -> bool:
        return self.stop.is_set() or (self.position is not None and after >= self.position)

    def is_late(self) -> bool:
        return self.position is not None and time.monotonic() > self.deadline


@dataclass(slots=True)
class RestlessReader:
    url: str
    name: str
    selection: Selection
    goal: Goal
    rng: random.Random
    after: Position = Position.BEGINNING
    seen: list[Entry] = field(default_factory=list)
    sessions: int = 0

    def run(self) -> None:
        while not self.goal.is_reached(self.after):
            self.session()
            self.goal.stop.wait(self.rng.uniform(0, 0.1))

    def session(self) -> None:
        """A connection and a reader of its own, for a random number of batches. At times the
        last batch is thrown away, as by a reader that dies before it has stored anything."""
        self.sessions += 1
        batches_left = self.rng.randint(1, 60)
        size = self.rng.choice(BATCH_SIZES)
        with db.connect(self.url, application_name=APPLICATION_NAME) as conn:
            reader = Reader(conn, self.after, self.selection, size)
            for batch in reader.batches(poll_seconds=0.05):
                batches_left -= 1
                if batches_left == 0 and self.rng.random() < 0.3:
                    return
                self.keep(batch)
                if batches_left == 0 or self.goal.is_reached(self.after):
                    return

    def keep(self, batch: Batch) -> None:
        self.seen += map(entry, batch.messages)
        self.after = batch.reached
        if self.goal.is_late():
            raise TimeoutError(f"{self.name} is still at {self.after}, not at {self.goal.position}")


def entry(message: RecordedMessage) -> Entry:
    return Entry(message.position, message.data["writer"], message.data["number"])
