"""Deliver batches one after the other; the checkpoint moves with each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from milepost.checkpoints import Answer, store_statement
from milepost.processors.conflict import Conflict, storing
from milepost.processors.effects import answer_of
from milepost.processors.failure import (
    Attempts,
    Failure,
    handler_failed,
    set_aside_statement,
)
from milepost.processors.parking import run

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection, Statement
    from milepost.log import Batch
    from milepost.processors.advance import Advance
    from milepost.processors.definition import ProcessorOptions
    from milepost.processors.effects import Effects
    from milepost.processors.parking import Parking
    from milepost.records import Position, RecordedMessage


@dataclass(slots=True)
class SequentialDelivery:
    """`checkpoint` changes only after the transaction that stored it has committed."""

    options: ProcessorOptions
    effects: Effects
    attempts: Attempts
    advance: Advance
    conn: Connection
    checkpoint: Position
    owner: str
    schema: str
    key: CheckpointKey
    epoch: int = 0  # of the claim, or raised by a reset
    parking: Parking | None = None

    def deliver(self, batch: Batch) -> None:
        if not batch.messages:
            if self.advance.is_due():
                self.drain(batch.reached)
            return
        try:
            self._apply(batch.messages, batch.reached)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its failure
            self.attempts.raise_if_not_handlers(error)
            self._one_by_one(batch.messages)

    def drain(self, reached: Position) -> None:
        """Everything delivered is durable already; let the checkpoint say how far we looked."""
        target = self.advance.target(self.checkpoint, reached)
        if target is not None:
            self._moved(self._store(target), target)

    def close(self) -> None:
        """Nothing is in flight between two batches."""

    def _apply(self, messages: list[RecordedMessage], new: Position) -> None:
        self._moved(self.effects.apply(messages, self._guard(new), self.parking), new)

    def _one_by_one(self, messages: list[RecordedMessage]) -> None:
        """After a batch was rolled back: find the message that fails, keep the others."""
        for message in messages:
            handle = partial(self._apply, [message], message.position)
            failure = self.attempts.run(message, handle)
            if failure is not None:
                self._give_up(failure)

    def _give_up(self, failure: Failure) -> None:
        if self.options.on_failure == "stop":
            raise handler_failed(self.options, failure) from failure.error
        position = failure.message.position
        with self.conn.transaction(), storing(self.schema):
            answer = self._store(position)
            if answer is Answer.STORED:
                self._set_aside(failure)
        self._moved(answer, position)

    def _set_aside(self, failure: Failure) -> None:
        if self.parking is not None:
            run(self.conn, self.parking.park(failure))
        else:
            self.conn.execute(*set_aside_statement(self.options, failure, self.schema))

    def _store(self, new: Position) -> Answer:
        with storing(self.schema):
            return answer_of(self.conn.execute(*self._guard(new)).fetchone())

    def _guard(self, new: Position) -> Statement:
        statement = store_statement(
            self.key, self.checkpoint, new,
            schema=self.schema, epoch=self.epoch, owner=self.owner,
        )  # fmt: skip
        return statement if self.parking is None else self.parking.guard(statement)

    def _moved(self, answer: Answer, new: Position) -> None:
        if answer is not Answer.STORED:
            raise Conflict(answer)
        self.checkpoint = new
