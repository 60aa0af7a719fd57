"""What the two kinds of work with self-checkpointing handlers have in common.

Within one claim such a handler sees every message once, in order. Whatever it sees again comes
after `on_segment_claimed`, where it can begin anew from what it has made durable. So nothing is
retried in place: when a handler or a participant fails, the segment is given back as it stands in
the database and claimed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost.errors import SelfCheckpointingFailed
from milepost.processors.checkpointing import Trigger, end
from milepost.processors.effects import calls, finish, invocations
from milepost.processors.failure import Failure
from milepost.processors.handling import Supply
from milepost.processors.participants import NotDurable
from milepost.processors.segmented.work import Abandoned, SegmentWork

if TYPE_CHECKING:
    from milepost.processors.participants import Participants
    from milepost.processors.segmented.hands import Hands
    from milepost.records import Position, RecordedMessage, Segment


@dataclass(slots=True)
class Setbacks:
    """How often the handlers of a segment have failed without getting any further. Each segment
    is in the hand of one thread at a time."""

    _counts: dict[Segment, tuple[Position, int]] = field(default_factory=dict)

    def count(self, segment: Segment, failed_at: Position) -> int:
        """One more; how many there are now."""
        highest, count = self._counts.get(segment, (failed_at, 0))
        count = 1 if failed_at > highest else count + 1
        self._counts[segment] = (max(highest, failed_at), count)
        return count


@dataclass(slots=True)
class SelfCheckpointingWork(SegmentWork):
    """`consumed` is up to where the self-checkpointing handlers were given everything."""

    participants: Participants
    setbacks: Setbacks
    consumed: Position = field(init=False)
    trigger: Trigger | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        SegmentWork.__post_init__(self)
        self.consumed = self.claim.position

    def claimed(self, hands: Hands) -> None:  # noqa: ARG002 - of the work's shape
        self.trigger = Trigger(self.segment, self.wake, self.claim.epoch, self.claim.position)
        self.participants.claimed(self.segment, self.trigger)

    def lost(self, hands: Hands | None) -> None:  # noqa: ARG002
        if self.trigger is not None:
            end(self.trigger)
            self.participants.lost(self.segment)

    def supply(self) -> Supply:
        return Supply(self.segment, self.trigger)

    def consume(self, messages: list[RecordedMessage], reached: Position, hands: Hands) -> None:
        """Give messages to the self-checkpointing handlers, outside any transaction."""
        definition, supply = self.surroundings.definition, self.supply()
        for arguments in calls(definition, messages):
            for handling, seen in invocations(definition.self_checkpointing, arguments):
                try:
                    finish(handling, handling(seen, supply), hands.loop)
                except Exception as error:  # noqa: BLE001 - whatever it raises is its failure
                    self._fail(seen[0] if isinstance(seen, list) else seen, error)
        self.consumed = max(self.consumed, reached)

    def covered(self, requested: Position, must_reach: Position | None = None) -> Position | None:
        """What all participants have made durable; or the segment is abandoned."""
        try:
            return self.participants.covered(self.segment, requested, self.consumed, must_reach)
        except NotDurable as error:
            raise Abandoned(f"no checkpoint at {requested}: {error}") from error

    def final_reports(self) -> list[Position | None]:
        """The trigger is inert from here on: whoever releases asks for everything."""
        if self.trigger is None:
            return []
        end(self.trigger)
        return self.participants.released(self.segment, self.consumed)

    def _fail(self, message: RecordedMessage, error: Exception) -> None:
        options = self.surroundings.definition.options
        count = self.setbacks.count(self.segment, message.position)
        failure = Failure(message, error, count)
        if count > options.retry.limit:
            raise SelfCheckpointingFailed(
                options.name, str(message.position), count, failure.summary(),
                self.segment.id, str(self.checkpoint),
            ) from error  # fmt: skip
        self.surroundings.on_retry(failure)
        raise Abandoned(f"the handler failed from {message.position} on: {error}") from error
