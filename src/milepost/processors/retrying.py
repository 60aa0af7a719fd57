"""Handle what operators asked to be retried: dead letters alone, parked keys whole and in order.

Deleting the dead letter is the guard, in the transaction of the effects, so that it is handled by
one instance and once. A parked key is drained by one instance at a time, under a lock of its
session; what arrives meanwhile is set aside behind the rest, and drained as well, before the key
flows again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from psycopg.rows import tuple_row

from milepost import sql
from milepost.checkpoints import Answer
from milepost.db import one, translated
from milepost.log import careful_message, undecoded
from milepost.processors.conflict import Conflict, GuardFailed
from milepost.processors.failure import Failure
from milepost.records import Segment

if TYPE_CHECKING:
    from threading import Event

    from milepost.db import Connection, Statement
    from milepost.processors.definition import ProcessorOptions
    from milepost.processors.effects import Effects
    from milepost.records import RecordedMessage

# How long a retry may keep the log's new messages waiting before it is their turn again.
DRAIN_SECONDS = 1.0
log = logging.getLogger("milepost.processors")


@dataclass(frozen=True, slots=True)
class Letter:
    id: int
    message: RecordedMessage


@dataclass(frozen=True, slots=True)
class Retrying:
    """The retries of one processor, or of one segment of it. Its own statements run on `conn`."""

    options: ProcessorOptions
    conn: Connection
    effects: Effects
    schema: str
    stop: Event
    segment: Segment = Segment.WHOLE

    def run(self) -> bool:
        """Handle what is asked for; whether there is more to be done at once."""
        deadline = time.monotonic() + DRAIN_SECONDS
        of_segment = {"segment": self.segment.id, "mask": self.segment.mask}
        for row in self._rows("dead_letter_requested", **of_segment):
            self._retry(letter(row))
        has_more = False
        for id_, key in self._rows("parked_requested", **of_segment):
            has_more |= self._drain(id_, key, deadline)
        return has_more

    def _drain(self, parked_id: int, key: str, deadline: float) -> bool:
        """Whether letters of the key are left that may be handled at once."""
        with self._holding(parked_id) as is_ours:
            if not is_ours:
                return False
            while (first := self._first(parked_id)) is not None:
                if self.stop.is_set() or time.monotonic() > deadline:
                    return True
                if not self._retry_parked(first, parked_id):
                    return False
            if self._answer("unpark", parked_id=parked_id):
                log.info("processor=%s key=%r flows again", self.options.name, key)
                return False
            return self._first(parked_id) is not None

    @contextmanager
    def _holding(self, parked_id: int) -> Iterator[bool]:
        """Whether this instance is the one that drains the key."""
        if not self._answer("parked_hold", parked_id=parked_id):
            yield False
            return
        try:
            yield True
        finally:
            if not self.conn.closed:
                self._answer("parked_let_go", parked_id=parked_id)

    def _first(self, parked_id: int) -> Letter | None:
        rows = self._rows("parked_next", parked_id=parked_id)
        return letter(rows[0]) if rows else None

    def _retry(self, found: Letter) -> None:
        failure = self._apply(found, self._query("dead_letter_claim", id=found.id))
        if isinstance(failure, Failure):
            self._failed("dead_letter_failed_again", failure, found, id=found.id)

    def _retry_parked(self, found: Letter, parked_id: int) -> bool:
        """Whether it was handled, so that the next one may be."""
        of_letter = {"id": found.id, "parked_id": parked_id}
        failure = self._apply(found, self._query("parked_claim", **of_letter))
        if isinstance(failure, Failure):
            self._failed("parked_failed_again", failure, found, **of_letter)
            return False
        return failure is Answer.STORED

    def _apply(self, found: Letter, guard: Statement) -> Failure | Answer:
        try:
            answer = self.effects.apply([found.message], guard)
        except Conflict as conflict:
            return conflict.answer  # another instance has it in hand
        except GuardFailed as failed:
            raise failed.error from failed
        except Exception as error:
            if self.effects.is_lost():
                raise
            return Failure(found.message, error, 1)
        if answer is Answer.STORED:
            log.info("dead_letter=%s position=%s retried", found.id, found.message.position)
        return answer

    def _failed(self, query: str, failure: Failure, found: Letter, **parameters: Any) -> None:
        with translated(self.schema):
            self.conn.execute(*self._query(query, **(failure.parameters() | parameters)))
        position = found.message.position
        log.warning(
            "dead_letter=%s position=%s retry failed: %s", found.id, position, failure.error
        )

    def _rows(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        with translated(self.schema), undecoded(self.conn, tuple_row) as cursor:
            return cursor.execute(*self._query(query, **parameters)).fetchall()

    def _answer(self, query: str, **parameters: Any) -> bool:
        with translated(self.schema):
            return bool(one(self.conn.execute(*self._query(query, **parameters)).fetchone())[0])

    def _query(self, name: str, **parameters: Any) -> Statement:
        of = {"processor": self.options.name, "version": self.options.version}
        return sql.query(name, self.schema), of | parameters


def letter(row: tuple[Any, ...]) -> Letter:
    id_, is_replayed, *columns = row
    message = careful_message(*columns)
    return Letter(id_, replace(message, replaying=True) if is_replayed else message)
