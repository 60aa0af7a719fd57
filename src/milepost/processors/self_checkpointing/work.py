"""What is done with a segment's messages by handlers that checkpoint themselves.

Within one claim such a handler sees every message once, in order. Whatever it sees again comes
after `on_segment_claimed`, where it can start again from what it has made durable. So nothing is
retried in place: when a handler or a participant fails, the segment is given back as it is in the
database and claimed again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from milepost import db
from milepost.checkpoints import columns
from milepost.errors import SelfCheckpointingFailed
from milepost.log import Batch, unreadable
from milepost.processors.deliver.at_least_once import finish
from milepost.processors.deliver.attempts import Failure, handler_failed
from milepost.processors.deliver.transaction import calls, invocations
from milepost.processors.handler_call import Supply
from milepost.processors.listeners import listeners_of
from milepost.processors.segments.work import Abandoned, SegmentWork, Surroundings
from milepost.processors.self_checkpointing.api import Trigger, end, taken
from milepost.processors.self_checkpointing.participants import ClaimOver, NotDurable, Participants
from milepost.processors.self_checkpointing.reconcile import advanced, lowest, within
from milepost.records import Position, RawMessage

if TYPE_CHECKING:
    from milepost.checkpoints import Advance
    from milepost.processors.definition import Definition
    from milepost.processors.segments.claims import Claim
    from milepost.processors.segments.pool import ThreadLeases
    from milepost.records import RecordedMessage
    from milepost.runtime import EventLoop

log = logging.getLogger("milepost.processors")


@dataclass(slots=True)
class SelfCheckpointingWork(SegmentWork):
    """`consumed` is up to where the self-checkpointing handlers were given everything."""

    participants: Participants = field(kw_only=True)
    consumed: Position = field(init=False)
    trigger: Trigger | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        SegmentWork.__post_init__(self)
        self.consumed = self.claim.position

    def claimed(self, leases: ThreadLeases) -> None:
        claim = self.claim
        SegmentWork.claimed(self, leases)
        self.trigger = Trigger(self.segment, self.wake, claim.epoch, claim.position, self.holds)
        try:
            self.participants.claimed(self.segment, self.trigger)
        except NotDurable as error:
            raise Abandoned(f"claiming it failed: {error}") from error

    def lost(self, leases: ThreadLeases | None) -> str | None:
        problem = None
        if self.trigger is not None:
            end(self.trigger)
            problem = self.participants.lost(self.segment)
        return problem or SegmentWork.lost(self, leases)

    def advance(self, reached: Position) -> Advance | None:  # noqa: ARG002 - of the work's shape
        """Its participants may have to make something durable before."""
        return None

    def supply(self) -> Supply:
        return Supply(self.segment, self.trigger)

    def consume(
        self, messages: list[RecordedMessage], reached: Position, leases: ThreadLeases
    ) -> None:
        """Give messages to the self-checkpointing handlers, outside any transaction."""
        definition, supply = self.surroundings.definition, self.supply()
        for arguments in calls(definition, messages):
            for handling, seen in invocations(definition.self_checkpointing, arguments):
                if not self.holds():
                    raise ClaimOver
                try:
                    finish(handling, handling(seen, supply), leases.loop)
                except Exception as error:  # noqa: BLE001 - whatever it raises is its failure
                    self._fail(seen[0] if isinstance(seen, list) else seen, error)
        self.consumed = max(self.consumed, reached)

    def covered(self, requested: Position, must_reach: Position | None = None) -> Position | None:
        """What all participants have made durable; or the segment is abandoned."""
        try:
            return self.participants.covered(
                self.segment, requested, self.consumed, must_reach, self.holds
            )
        except NotDurable as error:
            raise Abandoned(f"no checkpoint at {requested}: {error}") from error

    def final_reports(self) -> list[Position | None]:
        """The trigger is inert from here on: a release asks for everything."""
        if self.trigger is None:
            return []
        end(self.trigger)
        return self.participants.released(self.segment, self.consumed, self.holds)

    def _fail(self, message: RecordedMessage, error: Exception) -> None:
        options = self.surroundings.definition.options
        count = self.participants.count_setback(self.segment, message.position)
        self.has_progressed = count == 1  # it came further than before
        failure = Failure(message, error, count)
        if count > options.retry.limit:
            raise SelfCheckpointingFailed(
                options.name, str(message.position), count, failure.summary(),
                self.segment.id, str(self.checkpoint),
            ) from error  # fmt: skip
        self.surroundings.on_retry(failure)
        raise Abandoned(f"the handler failed from {message.position} on: {error}") from error


@dataclass(slots=True)
class AutoWork(SelfCheckpointingWork):
    """An ordinary handler among self-checkpointing ones: the checkpoint moves with every batch.

    The ordinary handler's work is done when its transaction commits, and the checkpoint with it. So
    the others must have made the batch durable before: they handle it first and are asked, outside
    any transaction; then come the store, the ordinary handlers, and the commit."""

    def handle(self, batch: Batch, leases: ThreadLeases) -> None:
        """What the ordinary handlers retry or set aside, the others have behind them."""
        if batch.messages:
            # What cannot be decoded fails below, as `on_failure` says.
            readable = [m for m in batch.messages if not isinstance(m, RawMessage)]
            self.consume(readable, batch.reached, leases)
            self.covered(batch.reached, must_reach=batch.reached)
        SegmentWork.handle(self, batch, leases)

    def tend(self, leases: ThreadLeases) -> None:  # noqa: ARG002 - of the work's shape
        """Whatever is asked for was stored with the batch."""
        if self.trigger is not None:
            taken(self.trigger)

    def released(self, leases: ThreadLeases) -> None:
        """Nothing is stored: beyond the checkpoint lies at most what the ordinary handlers have
        not done."""
        self.final_reports()
        SegmentWork.released(self, leases)


@dataclass(slots=True)
class DeferredWork(SelfCheckpointingWork):
    """All handlers checkpoint themselves: handling moves no checkpoint, a request does."""

    _given: Position = field(default=Position.BEGINNING, init=False)  # the last message

    @property
    def handled(self) -> Position | None:
        return self.consumed

    def handle(self, batch: Batch, leases: ThreadLeases) -> None:
        if batch.messages:
            self._give(batch, leases)
            return
        self.consumed = max(self.consumed, batch.reached)
        if not self._has_news:
            SegmentWork.handle(self, batch, leases)  # past what was filtered out

    def _give(self, batch: Batch, leases: ThreadLeases) -> None:
        """Up to a message that cannot be decoded, unless an operator has set it aside: the
        checkpoint, which moves later, cannot tell that it was skipped."""
        readable: list[RecordedMessage] = []
        stuck_at: RawMessage | None = None
        for message in batch.messages:
            if not isinstance(message, RawMessage):
                readable.append(message)
            elif not self._is_set_aside(message, leases):
                stuck_at = message
                break
        if readable:
            reached = batch.reached if stuck_at is None else readable[-1].position
            self.consume(readable, reached, leases)
            self._given = readable[-1].position
        if stuck_at is not None:
            failure = Failure(stuck_at, unreadable(stuck_at), attempts=1)
            raise handler_failed(self.surroundings.definition.options, failure)

    def _is_set_aside(self, message: RawMessage, leases: ThreadLeases) -> bool:
        with leases.sync as conn:
            row = db.fetch_one(
                conn,
                self.surroundings.schema,
                "dead_letter_is_there",
                **self.key.parameters(),
                **columns(message.position),
            )
        return bool(row[0])

    def tend(self, leases: ThreadLeases) -> None:
        if self.trigger is None:
            return
        if (request := taken(self.trigger, self.consumed)) is not None:
            requested = advanced(within(request, self.consumed), self.checkpoint)
            if requested is not None and self._has_news:
                self._store(self.covered(requested), leases)

    def flush(self) -> None:
        if self.trigger is not None:
            self.trigger.request()

    def released(self, leases: ThreadLeases) -> None:
        """Nobody can be asked again, so the lowest report is what counts."""
        self._store(lowest(self.final_reports()), leases)
        SegmentWork.released(self, leases)

    @property
    def _has_news(self) -> bool:
        """Whether any message was given to the handlers that the checkpoint does not cover."""
        return self._given > self.checkpoint

    def _store(self, position: Position | None, leases: ThreadLeases) -> None:
        """One statement, which is a transaction of its own: nothing was waited for in it."""
        if position is not None:
            self.has_progressed = True
            SegmentWork.handle(self, Batch([], position, is_full=False, is_held=False), leases)


def work_of(
    surroundings: Surroundings,
    loop: EventLoop | None,
    wake: Callable[[Claim], None],
    holds: Callable[[Claim], bool],
) -> Callable[[Claim], SegmentWork]:
    """What makes the work of a claim, for one instance."""
    definition = surroundings.definition
    told = listeners_of(definition, loop)
    if definition.mode is None or loop is None:
        return lambda c: SegmentWork(
            surroundings, c, partial(wake, c), partial(holds, c), listeners=told()
        )
    kind = AutoWork if definition.mode == "auto" else DeferredWork
    timeout = definition.options.durability_timeout
    participants = Participants(definition.participants, loop, timeout)
    return lambda c: kind(
        surroundings,
        c,
        partial(wake, c),
        partial(holds, c),
        participants=participants,
        listeners=told(),
    )


def refuse_unfit(definition: Definition) -> None:
    """Seen only at the start: handlers are added one by one."""
    options, name = definition.options, definition.options.name
    if definition.mode == "deferred" and options.delivery == "exactly_once":
        raise ValueError(
            f"Processor {name!r}: all its handlers checkpoint themselves, so there is no "
            "transaction in which effects and checkpoint could commit together. Take "
            "delivery='at_least_once'."
        )
    if definition.mode == "deferred" and options.on_failure != "stop":
        raise ValueError(
            f"Processor {name!r}: on_failure={options.on_failure!r} sets messages aside as the "
            "checkpoint passes them, and this one moves later, when its handlers say so. Take "
            "on_failure='stop', and let the handlers set aside what they cannot handle."
        )


def log_mode(definition: Definition) -> None:
    """The downgrade is nobody's choice, so it is said: what was meant to be deferred is not."""
    if definition.mode == "auto":
        log.warning(
            "processor=%s mode=auto: %s shares it with handlers that do not checkpoint themselves, "
            "so the checkpoint moves, and its work must be durable, with every batch. To defer it, "
            "give it a processor of its own.",
            definition.options.name,
            ", ".join(type(each).__name__ for each in definition.participants),
        )  # fmt: skip
    elif definition.mode == "deferred":
        log.info("processor=%s mode=deferred", definition.options.name)
