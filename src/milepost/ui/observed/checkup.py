"""The checks of the doctor, in the background: they take too long for a page to wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import TYPE_CHECKING

import psycopg

from milepost.errors import MilepostError

if TYPE_CHECKING:
    from milepost.health import Report

EVERY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Result:
    """The last report, or why there is none."""

    report: Report | None = None
    error: str | None = None


@dataclass(slots=True)
class Checkup:
    """Examines at most every ten seconds, and only while somebody asks for the result."""

    examine: Callable[[], Report]
    clock: Callable[[], float] = time.monotonic
    _lock: Lock = field(default_factory=Lock, init=False)  # guards what is below
    _result: Result | None = field(default=None, init=False)
    _begun_at: float | None = field(default=None, init=False)
    _thread: Thread | None = field(default=None, init=False)

    def latest(self) -> Result | None:
        """The last result; None: the first examination runs. Begins the next one if it is time."""
        with self._lock:
            is_due = self._begun_at is None or self.clock() - self._begun_at >= EVERY_SECONDS
            if is_due and self._thread is None:
                self._begun_at = self.clock()
                self._thread = Thread(target=self._run, name="milepost-checkup", daemon=True)
                self._thread.start()
            return self._result

    def close(self, seconds: float = 5.0) -> None:
        """Wait for the examination that runs."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _run(self) -> None:
        try:
            result = Result(self.examine())
        except (MilepostError, psycopg.Error) as error:
            result = Result(error=" ".join(str(error).split()))
        with self._lock:
            self._result, self._thread = result, None
