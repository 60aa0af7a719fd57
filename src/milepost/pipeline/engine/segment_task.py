"""One Spark task handles the messages of one segment. Runs on an executor."""

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
from milepost.processors import (
    Conflict,
    SegmentWork,
    Surroundings,
    thread_leases,
    unclaimed,
)
from milepost.runtime import Connections, EventLoop, Timing

if TYPE_CHECKING:
    from milepost.processors import Claim, Definition, ThreadLeases
    from milepost.records import Position, Segment

# A task ends after that time, and the next round continues. So a pause or a stop does not wait for
# the segment that is furthest behind.
TASK_SECONDS = 10.0
# What stops a processor. The errors themselves cannot be pickled.
_FACTS: dict[type[ProcessorError], tuple[str, ...]] = {
    CannotDecode: ("position", "cause"),
    HandlerFailed: ("position", "attempts", "cause"),
    ParkingFull: ("limit", "oldest_key"),
    TransactionEnded: ("first", "last", "cause", "is_committed"),
}


@dataclass(frozen=True, slots=True)
class Order:
    """The same for all tasks of a round. Pickled as a whole: Spark's pages do not show its URL."""

    definition: Definition
    url: str = field(repr=False)
    schema: str
    owner: str
    end: Position  # handle everything up to here


@dataclass(frozen=True, slots=True)
class Worked:
    """The result: how many messages were handled, and what stopped it."""

    handled: int
    failed: tuple[type[ProcessorError], tuple[Any, ...]] | None = None  # a class and its arguments

    def raise_failure(self, processor: str) -> None:
        if self.failed is not None:
            kind, facts = self.failed
            raise kind(processor, *facts)


def work_off(order: Order, segment: Segment) -> Worked:
    """Handle the segment's messages after its checkpoint."""
    loop = EventLoop(order.definition.options.name) if order.definition.is_async else None
    try:
        connections = Connections(order.url, schema=order.schema)
        leases = thread_leases(order.definition, connections, order.schema, loop, stop=Event())
        with closing(leases):
            return _SegmentTask(order, segment, leases).run()
    finally:
        if loop is not None:
            loop.close()


@dataclass(slots=True)
class _SegmentTask:
    order: Order
    segment: Segment
    leases: ThreadLeases
    handled: int = 0
    deadline: float = field(default_factory=lambda: time.monotonic() + TASK_SECONDS)

    def run(self) -> Worked:
        try:
            while self._go_on():
                pass
        except tuple(_FACTS) as error:
            facts = tuple(getattr(error, name) for name in _FACTS[type(error)])
            return Worked(self.handled, (type(error), facts))
        return Worked(self.handled)

    def _go_on(self) -> bool:
        """Whether to start again: somebody else moved the checkpoint, perhaps the same task on
        another executor."""
        key = self.order.definition.options.key
        with self.leases.sync as conn:
            claim = unclaimed(conn, self.order.schema, key, self.segment)
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
        work.retry(self.leases)
        while reached < self.order.end and time.monotonic() < self.deadline:
            with self.leases.sync as conn:
                batch = read_batch(
                    conn,
                    reached,
                    end,
                    selection,
                    batch_size=options.batch_size,
                    schema=self.order.schema,
                    history=work.history,
                )
            work.deliver(batch, self.leases)
            self.handled += len(batch.messages)
            reached = batch.reached

    def _work(self, claim: Claim) -> SegmentWork:
        order = self.order
        around = Surroundings(
            definition=order.definition,
            owner=order.owner,
            schema=order.schema,
            stop=Event(),
            on_retry=lambda _: None,  # only what fails for good is reported
            timing=Timing(),
        )
        return SegmentWork(around, claim, lambda: None)
