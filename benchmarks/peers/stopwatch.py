"""The seconds from the first job that begins to the last that ends: neither connecting nor
shutting down is counted, whatever a peer does then."""

from __future__ import annotations

import time


class Stopwatch:
    def __init__(self, count: int) -> None:
        self._left = count
        self._began = 0.0
        self._ended = 0.0

    def note(self) -> None:
        """Called by every job. Jobs may run in several threads: only the count can be off then,
        and `seconds` would say so."""
        self._ended = time.perf_counter()
        self._began = self._began or self._ended
        self._left -= 1

    @property
    def is_done(self) -> bool:
        return self._left <= 0

    @property
    def seconds(self) -> float:
        if self._left:
            raise RuntimeError(f"{self._left} jobs are missing")
        return self._ended - self._began
