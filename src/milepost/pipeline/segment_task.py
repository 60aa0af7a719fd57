"""What a task of Spark's does for one segment of a processor. Runs on an executor."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

from milepost.errors import (
    CannotDecode,
    HandlerFailed,
    ParkingFull,
    ProcessorError,
    TransactionEnded,
)
from milepost.log import Horizon, Selection, read_batch
from milepost.processors.colour import EventLoop
from milepost.processors.conflict import Conflict
from milepost.processors.segmented.claims import unclaimed
from milepost.processors.segmented.hands import open_hands
from milepost.processors.segmented.work import SegmentWork, Surroundings

if TYPE_CHECKING:
    from milepost.processors.definition import Definition
    from milepost.processors.failure import Failure
    from milepost.processors.segmented.claims import Claim
    from milepost.processors.segmented.hands import Hands
    from milepost.records import Position, Segment

# A task ends after that, done or not: the next round has the same for every segment, and a pause or
# a stop is not kept waiting by the one that is furthest behind.
TASK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Order:
    """What all tasks of a round are told. Pickled as a whole: the URL in it is bytes that no page
    of Spark shows."""

    definition: Definition
    url: str = field(repr=False)
    schema: str
    owner: str
    end: Position  # handle everything up to here


@dataclass(frozen=True, slots=True)
class Worked:
    """What became of it: how many messages were handled, and what stopped it."""

    handled: int
    failed: tuple[type[ProcessorError], tuple[Any, ...]] | None = None  # an error and its facts

    def raise_failure(self, processor: str) -> None:
        if self.failed is not None:
            kind, facts = self.failed
            raise kind(processor, *facts)


def work_off(order: Order, segment: Segment) -> Worked:
    """Handle the segment's messages, from wherever its checkpoint is now."""
    loop = EventLoop(order.definition.options.name) if order.definition.is_async else None
    try:
        with closing(open_hands(order.definition, order.url, order.schema, loop)) as hands:
            return _SegmentTask(order, segment, hands).run()
    finally:
        if loop is not None:
            loop.close()


@dataclass(slots=True)
class _SegmentTask:
    order: Order
    segment: Segment
    hands: Hands
    handled: int = 0
    deadline: float = field(default_factory=lambda: time.monotonic() + TASK_SECONDS)

    def run(self) -> Worked:
        try:
            while self._go_on():
                pass
        except CannotDecode as error:
            return Worked(self.handled, (CannotDecode, (error.position, error.cause)))
        except HandlerFailed as error:
            facts: tuple[Any, ...] = (error.position, error.attempts, error.cause)
            return Worked(self.handled, (HandlerFailed, facts))
        except ParkingFull as error:
            return Worked(self.handled, (ParkingFull, (error.limit, error.oldest_key)))
        except TransactionEnded as error:
            facts = (error.first, error.last, error.cause)
            return Worked(self.handled, (TransactionEnded, facts))
        return Worked(self.handled)

    def _go_on(self) -> bool:
        """Whether it must be looked at again: somebody else moved the checkpoint, perhaps the same
        task on another executor."""
        key = self.order.definition.options.key
        claim = unclaimed(self.hands.conn, self.order.schema, key, self.segment)
        if claim is None:
            return False
        try:
            self._handle(claim)
        except Conflict:
            return True
        return False

    def _handle(self, claim: Claim) -> None:
        options = self.order.definition.options
        selection = Selection(options.topics, options.types, self.segment)
        end = Horizon(self.order.end, is_held=False)
        work, reached = self._work(claim), claim.position
        work.retry(self.hands)
        while reached < self.order.end and time.monotonic() < self.deadline:
            batch = read_batch(
                self.hands.conn, reached, end, selection, options.batch_size, self.order.schema
            )
            work.deliver(batch, self.hands)
            self.handled += len(batch.messages)
            reached = batch.reached

    def _work(self, claim: Claim) -> SegmentWork:
        order = self.order
        around = Surroundings(order.definition, order.owner, order.schema, Event(), _ignore)
        return SegmentWork(around, claim, lambda: None)


def _ignore(failure: Failure) -> None:
    """A retry within a task: the driver hears of what fails for good."""
