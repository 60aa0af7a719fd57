"""How often and how long to wait between attempts. Pure: chance is passed in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retry:
    """Exponential back-off with jitter.

    `limit` counts the retries after the first attempt. `jitter` is the share of each delay that
    is left to chance, so that many that failed together do not come back together.
    """

    limit: int = 5
    first_seconds: float = 0.1
    factor: float = 2.0
    longest_seconds: float = 30.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        if self.limit < 0:
            raise ValueError(f"limit is {self.limit}: expected 0 or more.")
        if self.first_seconds < 0 or self.longest_seconds < 0 or self.factor < 1:
            raise ValueError("The delays of a Retry must not be negative, its factor at least 1.")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter is {self.jitter}: expected 0 to 1.")

    def delay_seconds(self, retry: int, chance: float) -> float:
        """Before retry number `retry` (from 1), for a `chance` from 0 to 1."""
        # The exponent is bounded: a float overflows long before a patient operator does.
        full = min(self.first_seconds * self.factor ** min(retry - 1, 64), self.longest_seconds)
        return full * (1 - self.jitter * chance)
