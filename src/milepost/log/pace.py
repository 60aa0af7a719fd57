"""How long a reader waits before it polls again. Pure: no clock, no connection.

A wake-up from the server ends any wait early; it is only a hint and may not come.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_LOOK_SECONDS = 0.001
LONGEST_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Pace:
    """After a full batch: immediately. While a transaction is in flight: soon, then less and less
    often. Otherwise: at the poll interval."""

    poll_seconds: float = 1.0
    fruitless_looks: int = 0

    def after(self, *, is_full: bool, is_fruitful: bool, is_held: bool) -> tuple[float, Pace]:
        """The seconds to wait now, and the pace to continue with."""
        if is_full:
            return 0.0, Pace(self.poll_seconds)
        if not is_held:
            return self.poll_seconds, Pace(self.poll_seconds)
        looks = 0 if is_fruitful else self.fruitless_looks
        wait = min(FIRST_LOOK_SECONDS * 2 ** min(looks, 10), LONGEST_LOOK_SECONDS)
        return min(wait, self.poll_seconds), Pace(self.poll_seconds, looks + 1)
