"""How long a worker waits that found nothing to take. The decision is pure; `look` asks the server.

A notification ends a wait early. It is a hint and may be missing: only one of the puts in flight
sends it, and the end of a job does not if it has not learnt yet that another one waits for it. So
while such a put or end may be under way, the worker looks again soon, then less and less often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from milepost import db

if TYPE_CHECKING:
    from milepost.db import Connection

# In how many seconds something is due, if that is known; and whether something is under way that
# may not notify.
Look: TypeAlias = "tuple[float | None, bool]"
FIRST_LOOK_SECONDS = 0.001
LONGEST_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Pause:
    poll_seconds: float = 1.0
    fruitless_looks: int = 0

    def after(self, look: Look) -> tuple[float, Pause]:
        """The seconds to wait now, and the pause to continue with."""
        due_seconds, is_under_way = look
        seconds = self.poll_seconds
        if is_under_way:
            soon = FIRST_LOOK_SECONDS * 2 ** min(self.fruitless_looks, 10)
            seconds = min(seconds, soon, LONGEST_LOOK_SECONDS)
        if due_seconds is not None:
            seconds = min(seconds, max(due_seconds, FIRST_LOOK_SECONDS))
        return seconds, Pause(self.poll_seconds, self.fruitless_looks + 1)


def look(conn: Connection, schema: str) -> Look:
    seconds, is_under_way = db.fetch_one(conn, schema, "queue_look")
    return seconds, is_under_way


def is_drained(conn: Connection, schema: str, pattern: str) -> bool:
    """Whether nothing is left to do now in the channels of a pattern."""
    return bool(db.fetch_one(conn, schema, "queue_is_drained", pattern=pattern)[0])
