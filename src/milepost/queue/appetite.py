"""How many jobs a worker wants to hold. Pure: no clock, no connection.

It holds what its handlers can begin with at once, and as much again as they begin within a tenth
of a second: enough that they never wait for a round trip, and little enough that slow handlers do
not hoard what others could do, nor slots of a limited channel.
"""

from __future__ import annotations

from dataclasses import dataclass, field

AHEAD_SECONDS = 0.1
# A rate that falls is believed only by and by; one that rises at once.
INERTIA = 0.7


@dataclass(slots=True)
class Appetite:
    concurrency: int
    batch: int
    rate: float = field(default=0.0, init=False)  # jobs that handlers began with, a second

    def began(self, count: int, seconds: float) -> None:
        """So many jobs were begun within this time."""
        rate = count / seconds
        self.rate = max(rate, INERTIA * self.rate + (1 - INERTIA) * rate)

    def ahead(self) -> int:
        """How many should wait in the buffer."""
        return min(2 * self.batch, int(self.rate * AHEAD_SECONDS))

    def wanted(self, idle: int, buffered: int) -> int:
        """How many to take now; none while the buffer is more than half full."""
        ahead = self.ahead()
        if buffered > max(idle, ahead // 2):
            return 0
        return max(0, min(self.batch, idle + ahead - buffered))
