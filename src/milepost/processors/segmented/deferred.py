"""All handlers checkpoint themselves: handling moves no checkpoint, a request and a release do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost.checkpoints import Answer, store_statement
from milepost.processors.checkpointing import taken
from milepost.processors.conflict import Conflict, storing
from milepost.processors.effects import answer_of
from milepost.processors.reconcile import advanced, lowest, within
from milepost.processors.segmented.self_checkpointing import SelfCheckpointingWork
from milepost.processors.segmented.work import SegmentWork
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.log import Batch
    from milepost.processors.segmented.hands import Hands


@dataclass(slots=True)
class DeferredWork(SelfCheckpointingWork):
    _given: Position = field(default=Position.BEGINNING, init=False)  # the last message

    def handle(self, batch: Batch, hands: Hands) -> None:
        if batch.messages:
            self.consume(batch.messages, batch.reached, hands)
            self._given = batch.messages[-1].position
            return
        self.consumed = max(self.consumed, batch.reached)
        if not self._has_news:
            SegmentWork.handle(self, batch, hands)  # past what was filtered out

    def tend(self, hands: Hands) -> None:
        if self.trigger is not None and (request := taken(self.trigger)) is not None:
            requested = advanced(within(request, self.consumed), self.checkpoint)
            if requested is not None and self._has_news:
                self._store(self.covered(requested), hands)

    def flush(self) -> None:
        if self.trigger is not None:
            self.trigger.request()

    def released(self, hands: Hands) -> None:
        """Nobody can be asked again, so the lowest report is what counts."""
        self._store(lowest(self.final_reports()), hands)

    @property
    def _has_news(self) -> bool:
        """Whether any message was given to the handlers that the checkpoint does not cover."""
        return self._given > self.checkpoint

    def _store(self, position: Position | None, hands: Hands) -> None:
        """One statement, which is a transaction of its own: nothing was waited for in it."""
        new = advanced(position, self.checkpoint)
        if new is None:
            return
        around = self.surroundings
        statement = store_statement(
            self.key, self.checkpoint, new,
            schema=around.schema, epoch=self.claim.epoch, owner=around.owner,
        )  # fmt: skip
        with storing(around.schema):
            answer = answer_of(hands.conn.execute(*statement).fetchone())
        if answer is not Answer.STORED:
            raise Conflict(answer)
        self.checkpoint = new
