"""What is done with the messages of one claimed segment.

`claimed`, then any number of `handle` and `tend`, then `released` or `lost`: one after the other,
each with the leases of the pool thread that serves the segment at that time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING

from milepost.checkpoints import Advance
from milepost.log import History
from milepost.processors.deliver.losses import Losses
from milepost.processors.deliver.sequential import SequentialDelivery
from milepost.processors.handler_call import Supply
from milepost.processors.replay.replay import Replay, load_replay
from milepost.processors.segments.split_merge import Floor, above_floors
from milepost.processors.set_aside.parking import Parking
from milepost.processors.set_aside.retry import Retrying

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.log import Batch
    from milepost.processors.definition import Definition
    from milepost.processors.deliver.attempts import Failure
    from milepost.processors.listeners import Listeners
    from milepost.processors.segments.claims import Claim
    from milepost.processors.segments.pool import ThreadLeases
    from milepost.records import Position, RecordedMessage, Segment
    from milepost.runtime import Timing


class Abandoned(Exception):
    """The segment is given back as it stands in the database, and claimed again later; the other
    segments go on."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all work of one instance shares."""

    definition: Definition
    owner: str
    schema: str
    stop: Event
    on_retry: Callable[[Failure], None]
    timing: Timing
    losses: Losses = field(default_factory=Losses)

    def parking(self) -> Parking | None:
        options = self.definition.options
        return Parking(options, self.schema) if options.on_failure == "park" else None


@dataclass(slots=True)
class SegmentWork:
    """An ordinary processor's: the checkpoint moves with every batch.

    `checkpoint` is what is stored; it changes only after the transaction that stored it has
    committed."""

    surroundings: Surroundings
    claim: Claim
    wake: Callable[[], None]  # asks for `tend`, from any thread
    holds: Callable[[], bool] = lambda: True  # whether the claim still does; from any thread
    has_progressed: bool = field(default=False, init=False)  # something was made durable
    listeners: Listeners | None = field(default=None, kw_only=True)
    checkpoint: Position = field(init=False)
    history: History = field(init=False)  # for reads of this segment alone
    _floors: list[Floor] = field(init=False)
    _replay: Replay | None = field(default=None, init=False)  # until it is loaded
    _parking: Parking | None = field(default=None, init=False)
    _is_asked_to_retry: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self.checkpoint = self.claim.position
        self.history = History(self.surroundings.schema)
        self._floors = list(self.claim.floors)
        self._parking = self.surroundings.parking()

    def claimed(self, leases: ThreadLeases) -> None:  # noqa: ARG002 - of the work's shape
        """Before the first message. What it raises gives the claim back."""
        if self.listeners is not None:
            self.listeners.claimed(self.segment)

    def deliver(self, batch: Batch, leases: ThreadLeases) -> None:
        """Handle what was not handled before a merge."""
        if self._floors:
            batch = replace(batch, messages=above_floors(batch.messages, self._floors))
            self._floors = [floor for floor in self._floors if floor.position > batch.reached]
        self.handle(replace(batch, messages=self._marked(batch.messages, leases)), leases)

    def handle(self, batch: Batch, leases: ThreadLeases) -> None:
        """An empty batch says how far was looked: the checkpoint may go there."""
        delivery = SequentialDelivery(
            self.surroundings,
            leases,
            effects=leases.effects(self.supply()),
            key=self.key,
            checkpoint=self.checkpoint,
            epoch=self.claim.epoch,
            parking=self._parking,
        )
        try:
            if batch.messages:
                delivery.deliver(batch)
                self.has_progressed = True
            else:
                delivery.drain(batch.reached)
        finally:
            self.checkpoint = delivery.checkpoint  # of a batch that failed, a part may be stored

    def advance(self, reached: Position) -> Advance | None:
        """What moves the checkpoint past messages that were filtered out, together with those of
        other segments; None: this one does it by itself."""
        if reached <= self.checkpoint:
            return None
        return Advance(self.key, self.checkpoint, reached, self.claim.epoch)

    def tend(self, leases: ThreadLeases) -> None:
        """After every batch, and whenever `wake` was called."""

    def ask_to_retry(self) -> None:
        """From any thread: operators want dead letters to be retried."""
        self._is_asked_to_retry = True
        self.wake()

    def retry(self, leases: ThreadLeases) -> None:
        """Handle those of this segment's keys, if any are asked for."""
        if not self._is_asked_to_retry:
            return
        self._is_asked_to_retry = False
        effects = leases.effects(self.supply())
        if Retrying(self.surroundings, leases.sync, effects, self.segment).run():
            self.ask_to_retry()

    def flush(self) -> None:
        """From any thread: let the checkpoint come to where the handlers are."""

    def released(self, leases: ThreadLeases) -> None:  # noqa: ARG002
        """Before the claim is given back; nothing is in flight."""
        if self.listeners is not None:
            self.listeners.released(self.segment, self.checkpoint)

    def lost(self, leases: ThreadLeases | None) -> str | None:  # noqa: ARG002 - some need it
        """Instead of `released`, where the claim is gone or the segment was abandoned; without
        leases where the server is gone. What failed, if anything did."""
        return None if self.listeners is None else self.listeners.lost(self.segment)

    @property
    def segment(self) -> Segment:
        return self.claim.segment

    @property
    def key(self) -> CheckpointKey:
        return replace(self.surroundings.definition.options.key, segment=self.segment.id)

    @property
    def handled(self) -> Position | None:
        """From any thread: up to where handlers were given everything, if that is not what is
        stored."""
        return None

    def supply(self) -> Supply:
        """What handlers may ask for."""
        return Supply(self.segment)

    def _marked(
        self, messages: list[RecordedMessage], leases: ThreadLeases
    ) -> list[RecordedMessage]:
        """What was handled before a reset says so. A reset takes every claim, so what is loaded
        under this one stays true for it."""
        if self._replay is None:
            with leases.sync as conn:
                self._replay = load_replay(
                    conn, self.surroundings.schema, self.key, self.checkpoint, self.segment
                )
        return self._replay.marked(messages)
