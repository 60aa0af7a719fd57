"""Handle what operators asked to be retried: dead letters alone, parked keys whole and in order.

Deleting the dead letter is the guard, in the transaction of the effects, so that it is handled by
one instance and once. A parked key is drained by one instance at a time, under a lock of its
session; what arrives meanwhile is set aside behind the rest, and drained as well, before the key
flows again.

A key is drained in batches, of which each is twice as large as the one before: so none takes much
longer than all before it, and new messages do not wait long. After a failure, one by one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from psycopg.rows import tuple_row

from milepost import db, sql
from milepost.checkpoints import Answer, columns
from milepost.errors import NoHandler
from milepost.log import careful_message, undecoded
from milepost.processors.deliver.attempts import Failure
from milepost.processors.deliver.losses import is_alone
from milepost.processors.deliver.transaction import Conflict, GuardFailed
from milepost.records import Segment
from milepost.telemetry import repeating

if TYPE_CHECKING:
    from milepost.checkpoints import CheckpointKey
    from milepost.db import Statement
    from milepost.processors.deliver.transaction import Effects
    from milepost.processors.segments.work import Surroundings
    from milepost.records import RecordedMessage
    from milepost.runtime import Lease

log = logging.getLogger("milepost.processors")


@dataclass(frozen=True, slots=True)
class Letter:
    id: int
    message: RecordedMessage


@dataclass(frozen=True, slots=True)
class Retrying:
    """The retries of one processor, or of one segment of it."""

    around: Surroundings
    lease: Lease
    effects: Effects
    segment: Segment = Segment.WHOLE

    def run(self) -> bool:
        """Handle what is requested; whether there is more to do immediately."""
        deadline = time.monotonic() + self.around.timing.retry_seconds
        of_segment = {"segment": self.segment.id, "mask": self.segment.mask}
        for row in self._rows("dead_letter_requested", **of_segment):
            self._retry_alone(letter(row))
        has_more = False
        for id_, key in self._rows("parked_requested", **of_segment):
            has_more |= self._drain(id_, key, deadline)
        return has_more

    def _drain(self, parked_id: int, key: str, deadline: float) -> bool:
        """Whether letters of the key are left that may be handled immediately."""
        with self._holding(parked_id) as is_ours:
            if not is_ours:
                return False
            size, alone = 1, 0  # how many are handled one by one, after a failure
            while letters := self._first(parked_id, 1 if alone else size):
                if self.around.stop.is_set() or time.monotonic() > deadline:
                    return True
                outcome = self._apply(letters, self._claim(letters, parked_id))
                if isinstance(outcome, Failure) and len(letters) > 1:
                    size, alone = 1, len(letters)
                    continue
                if isinstance(outcome, Failure):
                    self._failed("parked_failed_again", outcome, letters[0], parked_id=parked_id)
                if outcome is not Answer.STORED:
                    return False
                size, alone = min(2 * size, self._batch_size), max(0, alone - 1)
            if self._answer("unpark", parked_id=parked_id):
                log.info("processor=%s key=%r flows again", self._key.processor, key)
                return False
            return bool(self._first(parked_id, 1))

    def _claim(self, letters: list[Letter], parked_id: int) -> Statement:
        """The guard of the first letters of a key."""
        ids, last = [each.id for each in letters], letters[-1].message.position
        return self._query("parked_claim", ids=ids, parked_id=parked_id, **columns(last))

    @contextmanager
    def _holding(self, parked_id: int) -> Iterator[bool]:
        """Whether this instance is the one that drains the key. The lock is the session's, so the
        connection is kept."""
        with self.lease as conn:
            if not self._answer("parked_hold", parked_id=parked_id):
                yield False
                return
            try:
                yield True
            finally:
                if not conn.closed:
                    self._answer("parked_let_go", parked_id=parked_id)

    def _first(self, parked_id: int, most: int) -> list[Letter]:
        found = [letter(row) for row in self._rows("parked_next", parked_id=parked_id, most=most)]
        return sorted(found, key=lambda each: each.message.position)

    def _retry_alone(self, found: Letter) -> None:
        outcome = self._apply([found], self._query("dead_letter_claim", id=found.id))
        if isinstance(outcome, Failure):
            self._failed("dead_letter_failed_again", outcome, found)

    def _apply(self, letters: list[Letter], guard: Statement) -> Failure | Answer:
        """A failure is the first letter's, where there is one only."""
        messages = [each.message for each in letters]
        if (failure := self._failure_before(messages)) is not None:
            return failure
        began = time.monotonic()
        try:
            with repeating():
                answer = self.effects.apply(messages, guard)
        except Conflict as conflict:
            return conflict.answer  # another instance is handling it
        except GuardFailed as failed:
            raise failed.error from failed
        except Exception as error:
            if self.effects.is_lost():
                if is_alone(self.lease, began):
                    self.around.losses.note(messages)
                raise
            return Failure(messages[0], error, 1)
        if answer is Answer.STORED:
            for each in letters:
                log.info("dead_letter=%s position=%s retried", each.id, each.message.position)
        return answer

    def _failure_before(self, messages: list[RecordedMessage]) -> Failure | None:
        """What need not be tried."""
        definition = self.around.definition
        for message in messages:
            if definition.ordinary and not definition.handles(message.type):
                # In the log such a message passes. A letter that an operator asks for must not
                # vanish.
                return Failure(message, NoHandler(definition.options.name, message.type), 1)
        ended = self.around.losses.given_up(messages[0])
        return None if ended is None else Failure(messages[0], ended, ended.times)

    def _failed(self, query: str, failure: Failure, found: Letter, **parameters: Any) -> None:
        parameters |= self._key.parameters() | failure.parameters() | {"id": found.id}
        with self.lease as conn:
            db.run(conn, self.around.schema, query, **parameters)
        position = found.message.position
        log.warning(
            "dead_letter=%s position=%s retry failed: %s", found.id, position, failure.error
        )

    def _rows(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        with (
            self.lease as conn,
            db.translated(self.around.schema),
            undecoded(conn, tuple_row) as cursor,
        ):
            return cursor.execute(*self._query(query, **parameters)).fetchall()

    def _answer(self, query: str, **parameters: Any) -> bool:
        parameters |= self._key.parameters()
        with self.lease as conn:
            return bool(db.fetch_one(conn, self.around.schema, query, **parameters)[0])

    def _query(self, name: str, **parameters: Any) -> Statement:
        return sql.query(name, self.around.schema), self._key.parameters() | parameters

    @property
    def _batch_size(self) -> int:
        return self.around.definition.options.batch_size

    @property
    def _key(self) -> CheckpointKey:
        return self.around.definition.options.key


def letter(row: tuple[Any, ...]) -> Letter:
    id_, is_replayed, *columns = row
    message = careful_message(*columns)
    return Letter(id_, replace(message, replaying=True) if is_replayed else message)
