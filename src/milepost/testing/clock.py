"""Time that passes without waiting: the times in the test's database are put earlier.

The server's clock is what Milepost compares with, and it cannot be moved. So the rows move instead:
schedules, jobs, locks and claims. Nothing of what runs in production knows about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from milepost import db
from milepost.queue.schedules import register

if TYPE_CHECKING:
    from collections.abc import Iterable

    from milepost.queue import Schedule


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of schedules and jobs in a test's database."""

    url: str = field(repr=False)
    schema: str
    schedules: Iterable[Schedule]

    def move(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """So much time passes while nothing runs. What is due then is done by the next
        `mp.drain()`. A schedule that has missed several ticks puts one job, as after a downtime."""
        by = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        if by < timedelta(0):
            raise ValueError(f"The clock cannot be moved by {by}: time does not go back.")
        with db.connect(self.url) as conn:
            for schedule in self.schedules:  # those of the application begin now, if they have not
                register(conn, schedule, self.schema)
            db.run(conn, self.schema, "testing_move_clock", by=by)
