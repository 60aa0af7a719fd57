"""What the pool threads have done, for the one thread that reports it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.processors.failure import Failure

RATE_SECONDS = 5.0


@dataclass(slots=True)
class Tally:
    clock: Callable[[], float] = time.monotonic
    _lock: Lock = field(default_factory=Lock, init=False)
    _messages: int = field(default=0, init=False)
    _failure: Failure | None = field(default=None, init=False)
    _counted: int = field(default=0, init=False)  # since `_since`
    _since: float | None = field(default=None, init=False)
    _rate: float = field(default=0.0, init=False)

    def add(self, messages: int) -> None:
        if messages:
            with self._lock:
                self._messages += messages
                self._counted += messages

    def retry(self, failure: Failure) -> None:
        with self._lock:
            self._failure = failure

    def taken(self) -> tuple[int, Failure | None]:
        """What came since the last call."""
        with self._lock:
            messages, failure = self._messages, self._failure
            self._messages, self._failure = 0, None
            return messages, failure

    def rate(self) -> float:
        """Messages a second, over the last seconds."""
        with self._lock:
            now = self.clock()
            if self._since is None:
                self._since = now
            elif now - self._since >= RATE_SECONDS:
                self._rate = self._counted / (now - self._since)
                self._counted, self._since = 0, now
            return self._rate
