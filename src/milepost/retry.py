"""How often to retry, and how long to wait before. Pure: the random number is passed in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retry:
    """Exponential back-off with jitter.

    `limit` counts the retries after the first attempt. `jitter` is the part of each delay that
    is random, so that many that failed together do not retry together.
    """

    limit: int = 5
    first_seconds: float = 0.1
    factor: float = 2.0
    longest_seconds: float = 30.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        # Written so that NaN, for which every comparison is false, is refused too.
        if not self.limit >= 0:
            raise ValueError(f"limit is {self.limit}: expected 0 or more.")
        if not (self.first_seconds >= 0 and self.longest_seconds >= 0 and self.factor >= 1):
            raise ValueError(
                "The delays of a Retry must not be negative, and its factor must be at least 1."
            )
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter is {self.jitter}: expected 0 to 1.")

    def delay_seconds(self, retry: int, chance: float) -> float:
        """Before retry number `retry` (from 1), with a random `chance` from 0 to 1."""
        return self._full_delay(retry) * (1 - self.jitter * chance)

    def _full_delay(self, retry: int) -> float:
        try:
            return min(self.first_seconds * self.factor ** (retry - 1), self.longest_seconds)
        except OverflowError:  # after many retries; the longest delay is reached long before
            return self.longest_seconds
