"""Deliver batches one after another. The checkpoint moves with each."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from milepost.checkpoints import Answer, store_statement
from milepost.processors.deliver.attempts import Attempts, Failure, handler_failed
from milepost.processors.deliver.losses import is_alone
from milepost.processors.deliver.transaction import Conflict, answer_of, run, storing
from milepost.processors.set_aside.dead_letters import put
from milepost.telemetry import repeating

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection, Statement
    from milepost.log import Batch
    from milepost.processors.definition import ProcessorOptions
    from milepost.processors.deliver.transaction import Effects
    from milepost.processors.segments.pool import ThreadLeases
    from milepost.processors.segments.work import Surroundings
    from milepost.processors.set_aside.parking import Parking
    from milepost.records import Position, RecordedMessage


@dataclass(slots=True)
class Delivery(ABC):
    """`checkpoint` changes only after the transaction that stored it has committed."""

    around: Surroundings
    leases: ThreadLeases
    effects: Effects
    key: CheckpointKey
    checkpoint: Position
    epoch: int = 0  # of the claim, or raised by a reset
    parking: Parking | None = None
    attempts: Attempts = field(init=False)
    advanced_at: float | None = field(default=None, init=False)  # past what was filtered out

    def __post_init__(self) -> None:
        around = self.around
        self.attempts = Attempts(
            self.options,
            around.stop,
            self.leases.is_lost,
            around.on_retry,
            around.losses,
            partial(is_alone, self.leases.sync),
        )

    @abstractmethod
    def deliver(self, batch: Batch) -> None: ...

    @abstractmethod
    def drain(self, reached: Position) -> None:
        """Finish and store what was delivered, and pass what was filtered out up to `reached`."""

    @abstractmethod
    def close(self) -> None: ...

    @property
    def options(self) -> ProcessorOptions:
        return self.around.definition.options

    def is_advance_due(self) -> bool:
        """Whether the checkpoint may pass what was filtered out: not at every look."""
        seconds = self.around.timing.advance_seconds
        return self.advanced_at is None or time.monotonic() - self.advanced_at >= seconds

    def store(self, new: Position) -> Answer:
        with self.leases.sync as conn, storing(self.around.schema):
            return answer_of(conn.execute(*self.guard(new)).fetchone())

    def guard(self, new: Position) -> Statement:
        statement = store_statement(
            self.key,
            self.checkpoint,
            new,
            schema=self.around.schema,
            epoch=self.epoch,
            owner=self.around.owner,
        )
        return statement if self.parking is None else self.parking.guard(statement)

    def moved(self, answer: Answer, new: Position) -> None:
        if answer is not Answer.STORED:
            raise Conflict(answer)
        self.checkpoint = new

    def set_aside(self, conn: Connection, failure: Failure) -> None:
        schema, position = self.around.schema, failure.message.position
        if self.parking is not None:
            run(conn, self.parking.park(failure), schema, storing)
        else:
            run(
                conn, put(schema, self.options.key, position, failure.parameters()), schema, storing
            )


@dataclass(slots=True)
class SequentialDelivery(Delivery):
    def deliver(self, batch: Batch) -> None:
        if not batch.messages:
            if self.is_advance_due():
                self.drain(batch.reached)
            return
        if self.around.losses.are_suspect(batch.messages):
            self._one_by_one(batch.messages)
            return
        began = time.monotonic()
        try:
            self._apply(batch.messages, batch.reached)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its failure
            self.attempts.raise_if_not_handlers(error, batch.messages, began)
            self._one_by_one(batch.messages)

    def drain(self, reached: Position) -> None:
        """Everything delivered is durable already; let the checkpoint say how far we looked."""
        if reached > self.checkpoint:
            self.advanced_at = time.monotonic()
            self.moved(self.store(reached), reached)

    def close(self) -> None:
        """Nothing is in flight between two batches."""

    def _apply(self, messages: list[RecordedMessage], new: Position) -> None:
        self.moved(self.effects.apply(messages, self.guard(new), self.parking), new)

    def _one_by_one(self, messages: list[RecordedMessage]) -> None:
        """After a batch was rolled back: find the message that fails, keep the others."""
        for message in messages:
            handle = partial(self._apply, [message], message.position)
            with repeating():
                failure = self.attempts.run(message, handle)
            if failure is not None:
                self._give_up(failure)

    def _give_up(self, failure: Failure) -> None:
        if self.options.on_failure == "stop":
            raise handler_failed(self.options, failure) from failure.error
        position = failure.message.position
        with self.leases.sync as conn, conn.transaction(), storing(self.around.schema):
            answer = self.store(position)
            if answer is Answer.STORED:
                self.set_aside(conn, failure)
        self.moved(answer, position)
