"""How long a worker rests that found nothing to take. The decision is pure; `look` asks the server.

A wake-up ends any rest early. It is a hint and may be missing: only one of the puts in flight sends
it, so while one is in flight that will not, the worker looks again soon, then ever less often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from milepost import sql
from milepost.db import one, translated

if TYPE_CHECKING:
    from milepost.db import Connection

# In how many seconds something is due, if that is known; and whether a put is in flight.
Look: TypeAlias = "tuple[float | None, bool]"
FIRST_LOOK_SECONDS = 0.001
LONGEST_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Pause:
    poll_seconds: float = 1.0
    fruitless_looks: int = 0

    def after(self, look: Look) -> tuple[float, Pause]:
        """The seconds to rest now, and the pause to go on with."""
        due_seconds, is_put_in_flight = look
        seconds = self.poll_seconds
        if is_put_in_flight:
            soon = FIRST_LOOK_SECONDS * 2 ** min(self.fruitless_looks, 10)
            seconds = min(seconds, soon, LONGEST_LOOK_SECONDS)
        if due_seconds is not None:
            seconds = min(seconds, max(due_seconds, FIRST_LOOK_SECONDS))
        return seconds, Pause(self.poll_seconds, self.fruitless_looks + 1)


def look(conn: Connection, schema: str) -> Look:
    with translated(schema):
        seconds, is_put_in_flight = one(conn.execute(sql.query("queue_look", schema)).fetchone())
    return seconds, is_put_in_flight
