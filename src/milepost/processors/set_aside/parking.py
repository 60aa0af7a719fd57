"""Parking: a message that fails waits, with the later ones of its key, while other keys flow.

Which keys are parked is found out after the guard has locked the checkpoint. To park a key of this
segment moves its checkpoint in the same transaction, so no key is parked unnoticed meanwhile.
Letting a key flow again may happen at any time; `park` in SQL settles that with a lock on the key.

What to ask the database, and what to make of it, is a generator of statements here, so that a
transaction of either colour can run it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from milepost import sql
from milepost.db import is_pooled
from milepost.errors import ParkingFull, UnfitPooler
from milepost.processors.set_aside.dead_letters import STORED, archived, stored
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.db import Connection, Statement
    from milepost.processors.definition import ProcessorOptions
    from milepost.processors.deliver.attempts import Failure
    from milepost.processors.deliver.transaction import Steps
    from milepost.records import RecordedMessage

HELD_BACK = "held back: its key is parked"


@dataclass(slots=True)
class Parking:
    """The parked keys of one processor, as one stretch of its work needs them."""

    options: ProcessorOptions
    schema: str
    # What the last guard said. A handler without a transaction relies on it until the next one:
    # nobody else can have parked a key of ours without moving our checkpoint.
    may_be_parked: bool = field(default=True, init=False)

    def guard(self, store: Statement) -> Statement:
        """The store of a checkpoint that also tells whether any key is parked at all."""
        return sql.query("store_checkpoint_parking", self.schema), store[1]

    def held_back(self, messages: list[RecordedMessage]) -> Steps[list[RecordedMessage]]:
        """Those of parked keys, which must not be handled now."""
        keys = {message.key for message in messages if message.key is not None}
        if not keys or not self.may_be_parked:
            return []
        digests = [sha256(key.encode()).digest() for key in keys]
        rows = yield self._query("parked_among", digests=digests)
        parked = {row[0] for row in rows}
        return [message for message in messages if message.key in parked]

    def sift(self, messages: list[RecordedMessage], guard_row: Any) -> Steps[list[RecordedMessage]]:
        """What is to be handled; the rest is set aside."""
        self.may_be_parked = guard_row[1]
        held = yield from self.held_back(messages)
        yield from self.hold(held, guard_row)
        return without(messages, held)

    def hold(self, messages: list[RecordedMessage], guard_row: Any) -> Steps[None]:
        """Set aside messages of parked keys, behind what is there of their keys."""
        self.may_be_parked = guard_row[1]
        if messages:
            yield from self._park(messages, error=HELD_BACK, retry=True)

    def park(self, failure: Failure) -> Steps[None]:
        """Set aside the message that failed, and with it its key."""
        facts = failure.parameters()
        yield from self._park(
            [failure.message],
            error=facts["error"],
            traceback=facts["traceback"],
            attempts=facts["attempts"],
        )

    def _park(
        self,
        messages: Sequence[RecordedMessage],
        error: str,
        traceback: str = "",
        attempts: int = 0,
        *,
        retry: bool = False,
    ) -> Steps[None]:
        facts = {"error": error, "traceback": traceback, "attempts": attempts, "retry": retry}
        ((number,),) = yield self._query("park", **_places(messages), **facts)
        if number < len(messages):
            yield from self._park_archived(messages, facts)
        yield from self._refuse_too_many()
        self.may_be_parked = True

    def _park_archived(
        self, messages: Sequence[RecordedMessage], facts: dict[str, Any]
    ) -> Steps[None]:
        """Those of them that were removed from the table."""
        rows = yield self._query("removed_among", **_places(messages))
        removed = {Position(*row) for row in rows}
        rest = [message for message in messages if message.position in removed]
        columns: list[dict[str, Any]] = []
        for message in rest:
            found = yield from archived(self.schema, self.options.key, message.position)
            columns.append(stored(found))
        of_messages = {name: [column[name] for column in columns] for name in STORED}
        yield self._query("park_archived", **_places(rest), **of_messages, **facts)

    def _refuse_too_many(self) -> Steps[None]:
        ((number,),) = yield self._query("parked_count", max_parked=self.options.max_parked)
        if number <= self.options.max_parked:
            return
        rows = yield self._query("parked_oldest")
        oldest = rows[0][0] if rows else None
        raise ParkingFull(self.options.name, self.options.max_parked, oldest)

    def _query(self, name: str, **parameters: Any) -> Statement:
        return sql.query(name, self.schema), self.options.key.parameters() | parameters


def _places(messages: Sequence[RecordedMessage]) -> dict[str, Any]:
    return {
        "transaction_ids": [message.position.transaction_id for message in messages],
        "positions": [message.position.position for message in messages],
        "is_replayed": [message.replaying for message in messages],
    }


def refuse_pooled(options: ProcessorOptions, conn: Connection) -> None:
    """A key is drained under a lock of the session's, which a pooler would leave with a session
    that is somebody else's by then."""
    if options.on_failure == "park" and is_pooled(conn):
        raise UnfitPooler(
            f"Processor {options.name!r} parks what fails (on_failure='park'), which needs a "
            "session of its own, and the URL says pgbouncer=true",
            "Connect to the server itself, or through a pooler in session mode.",
        )


def without(messages: list[RecordedMessage], held: list[RecordedMessage]) -> list[RecordedMessage]:
    positions = {message.position for message in held}
    return [m for m in messages if m.position not in positions] if held else messages
