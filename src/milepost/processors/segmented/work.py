"""What is done with the messages of one claimed segment.

`claimed`, then any number of `handle` and `tend`, then `released` or `lost`: one after the other,
each with the hands of whichever pool thread has the segment just then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING

from milepost.processors.advance import Advance
from milepost.processors.failure import Attempts, Failure
from milepost.processors.handling import Supply
from milepost.processors.parking import Parking
from milepost.processors.replay import Replay, load_replay
from milepost.processors.retrying import Retrying
from milepost.processors.segmented.arithmetic import Floor, above_floors
from milepost.processors.sequential import SequentialDelivery

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.log import Batch
    from milepost.processors.definition import Definition
    from milepost.processors.segmented.claims import Claim
    from milepost.processors.segmented.hands import Hands
    from milepost.records import Position, RecordedMessage, Segment


class Abandoned(Exception):
    """The segment is given back as it stands in the database, and claimed again later; the other
    segments go on."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the works of one instance share."""

    definition: Definition
    owner: str
    schema: str
    stop: Event
    on_retry: Callable[[Failure], None]


@dataclass(slots=True)
class SegmentWork:
    """An ordinary processor's: the checkpoint moves with every batch.

    `checkpoint` is what is stored; it changes only after the transaction that stored it has
    committed."""

    surroundings: Surroundings
    claim: Claim
    wake: Callable[[], None]  # asks for `tend`, from any thread
    checkpoint: Position = field(init=False)
    _floors: list[Floor] = field(init=False)
    _replay: Replay | None = field(default=None, init=False)  # until it is loaded
    _parking: Parking | None = field(default=None, init=False)
    _is_asked_to_retry: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self.checkpoint = self.claim.position
        self._floors = list(self.claim.floors)
        options, schema = self.surroundings.definition.options, self.surroundings.schema
        if options.on_failure == "park":
            self._parking = Parking(options, schema)

    def claimed(self, hands: Hands) -> None:
        """Before the first message. What it raises gives the claim back."""

    def deliver(self, batch: Batch, hands: Hands) -> None:
        """Handle what was not handled before a merge."""
        if self._floors:
            batch = replace(batch, messages=above_floors(batch.messages, self._floors))
            self._floors = [floor for floor in self._floors if floor.position > batch.reached]
        self.handle(replace(batch, messages=self._marked(batch.messages, hands)), hands)

    def handle(self, batch: Batch, hands: Hands) -> None:
        """An empty batch says how far was looked: the checkpoint may go there."""
        delivery = self.delivery(hands)
        try:
            if batch.messages:
                delivery.deliver(batch)
            else:
                delivery.drain(batch.reached)
        finally:
            self.checkpoint = delivery.checkpoint  # of a batch that failed, a part may be stored

    def tend(self, hands: Hands) -> None:
        """After every batch, and whenever `wake` was called."""

    def ask_to_retry(self) -> None:
        """From any thread: operators want dead letters to be retried."""
        self._is_asked_to_retry = True
        self.wake()

    def retry(self, hands: Hands) -> None:
        """Handle those of this segment's keys, if any are asked for."""
        if not self._is_asked_to_retry:
            return
        self._is_asked_to_retry = False
        around = self.surroundings
        options, effects = around.definition.options, hands.effects(self.supply())
        if Retrying(options, hands.conn, effects, around.schema, around.stop, self.segment).run():
            self.ask_to_retry()

    def flush(self) -> None:
        """From any thread: let the checkpoint come to where the handlers are."""

    def released(self, hands: Hands) -> None:
        """Before the claim is given back; nothing is in flight."""

    def lost(self, hands: Hands | None) -> None:
        """Instead of `released`, where the claim is gone or the segment was abandoned; without
        hands where the server is gone."""

    @property
    def segment(self) -> Segment:
        return self.claim.segment

    @property
    def key(self) -> CheckpointKey:
        return replace(self.surroundings.definition.options.key, segment=self.segment.id)

    def supply(self) -> Supply:
        """What handlers may ask for."""
        return Supply(self.segment)

    def delivery(self, hands: Hands) -> SequentialDelivery:
        around = self.surroundings
        options = around.definition.options
        return SequentialDelivery(
            options, hands.effects(self.supply()),
            Attempts(options, around.stop, hands.is_lost, around.on_retry),
            Advance(), hands.conn, self.checkpoint, around.owner,
            around.schema, self.key, self.claim.epoch,
            self._parking,
        )  # fmt: skip

    def _marked(self, messages: list[RecordedMessage], hands: Hands) -> list[RecordedMessage]:
        """What was handled before a reset says so. A reset takes every claim, so what is loaded
        under this one stays true for it."""
        if self._replay is None:
            self._replay = load_replay(
                hands.conn, self.surroundings.schema, self.key, self.checkpoint, self.segment
            )
        return self._replay.marked(messages)
