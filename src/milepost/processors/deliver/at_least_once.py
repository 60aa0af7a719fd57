"""Effects first, then the guard: what dies in between is handled again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost.checkpoints import Answer
from milepost.handlers import refuse_unfinished
from milepost.processors.deliver.transaction import (
    Effects,
    answer_of,
    calls,
    guarding,
    invocations,
    run,
)
from milepost.processors.set_aside.parking import without

if TYPE_CHECKING:
    from milepost.db import Statement
    from milepost.processors.handler_call import Handling
    from milepost.processors.set_aside.parking import Parking
    from milepost.records import RecordedMessage
    from milepost.runtime import EventLoop


@dataclass(frozen=True, slots=True)
class AtLeastOnce(Effects):
    loop: EventLoop | None = None

    def apply(
        self, messages: list[RecordedMessage], guard: Statement, parking: Parking | None = None
    ) -> Answer:
        """Which keys are parked is looked up before, and set aside after: no lock is held while
        the handler runs."""
        held: list[RecordedMessage] = []
        if parking is not None:
            with self.lease as conn:
                held = run(conn, parking.held_back(messages), self.schema)
        self.handle(without(messages, held))
        with self.lease as conn, guarding(self.schema):
            if parking is None:
                return answer_of(conn.execute(*guard).fetchone())
            with conn.transaction():
                row = conn.execute(*guard).fetchone()
                if (answer := answer_of(row)) is Answer.STORED:
                    run(conn, parking.hold(held, row), self.schema)
            return answer

    def handle(self, messages: list[RecordedMessage]) -> None:
        if not self.definition.ordinary:
            raise TypeError(
                "The handlers checkpoint themselves, so a message handled alone would not be "
                "durable when its dead letter is gone. Append it again, and drop the letter."
            )
        for arguments in calls(self.definition, messages):
            for handling, seen in invocations(self.definition.ordinary, arguments):
                finish(handling, handling(seen, self.supply), self.loop)


def finish(handling: Handling, result: Any, loop: EventLoop | None) -> None:
    """Wait for a coroutine. Anything else that has not finished is refused."""
    if handling.is_async and loop is not None:
        loop.run(result)
    else:
        refuse_unfinished(result)
