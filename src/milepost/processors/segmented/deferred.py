"""All handlers checkpoint themselves: handling moves no checkpoint, a request and a release do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost import sql
from milepost.checkpoints import Answer, store_statement
from milepost.db import one, translated
from milepost.log import unreadable
from milepost.processors.checkpointing import taken
from milepost.processors.conflict import Conflict, storing
from milepost.processors.effects import answer_of
from milepost.processors.failure import Failure, handler_failed
from milepost.processors.reconcile import advanced, lowest, within
from milepost.processors.segmented.self_checkpointing import SelfCheckpointingWork
from milepost.processors.segmented.work import SegmentWork
from milepost.records import Position, RawMessage

if TYPE_CHECKING:
    from milepost.log import Batch
    from milepost.processors.segmented.hands import Hands
    from milepost.records import RecordedMessage


@dataclass(slots=True)
class DeferredWork(SelfCheckpointingWork):
    _given: Position = field(default=Position.BEGINNING, init=False)  # the last message

    def handle(self, batch: Batch, hands: Hands) -> None:
        if batch.messages:
            self._give(batch, hands)
            return
        self.consumed = max(self.consumed, batch.reached)
        if not self._has_news:
            SegmentWork.handle(self, batch, hands)  # past what was filtered out

    def _give(self, batch: Batch, hands: Hands) -> None:
        """Up to a message that cannot be decoded, unless an operator has set it aside: the
        checkpoint, which moves later, cannot tell that it was skipped."""
        readable: list[RecordedMessage] = []
        stuck_at: RawMessage | None = None
        for message in batch.messages:
            if not isinstance(message, RawMessage):
                readable.append(message)
            elif not self._is_set_aside(message, hands):
                stuck_at = message
                break
        if readable:
            reached = batch.reached if stuck_at is None else readable[-1].position
            self.consume(readable, reached, hands)
            self._given = readable[-1].position
        if stuck_at is not None:
            failure = Failure(stuck_at, unreadable(stuck_at), attempts=1)
            raise handler_failed(self.surroundings.definition.options, failure)

    def _is_set_aside(self, message: RawMessage, hands: Hands) -> bool:
        parameters = {
            "processor": self.key.processor,
            "version": self.key.version,
            "transaction_id": message.position.transaction_id,
            "position": message.position.position,
        }
        schema = self.surroundings.schema
        with translated(schema):
            row = hands.conn.execute(sql.query("dead_letter_is_there", schema), parameters)
        return bool(one(row.fetchone())[0])

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
