"""Time limits of `def` handlers: a thread watches the calls, and gives up those that take too long.

Whether a handler ended in time is decided once, under a lock: either the handler settles its job,
or the job fails with JobTimedOut and the handler's thread is abandoned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, Thread, current_thread
from typing import TYPE_CHECKING

from milepost.runtime import Duty

if TYPE_CHECKING:
    from milepost.records import TakenJob
    from milepost.runtime import Lease


class Abandoned(BaseException):
    """The time of the job was up while its handler ran, and its thread was replaced. Not an
    Exception: nothing may take it for a failure of the handler."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A handler that runs: with one job, or with a list of them."""

    jobs: Sequence[TakenJob]
    thread: Thread
    seconds: float
    ends_at: float
    lease: Lease | None  # of its transaction


class TimeLimits:
    def __init__(
        self,
        name: str,
        shortest_seconds: float,
        on_timeout: Callable[[Call, int], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """`on_timeout` gets the call, and how many abandoned threads still run."""
        self._shortest_seconds, self._on_timeout = shortest_seconds, on_timeout
        self._lock = Lock()
        self._calls: dict[Thread, Call] = {}
        self._abandoned: set[Thread] = set()
        self._duty = Duty(f"{name}-timeouts", self._step, on_failure)

    def start(self) -> None:
        self._duty.start()

    def close(self) -> None:
        self._duty.close()

    @contextmanager
    def limit(
        self, jobs: Sequence[TakenJob], lease: Lease | None, seconds: float
    ) -> Iterator[None]:
        """Around the call of a handler. Raises Abandoned where its time was up."""
        thread = current_thread()
        ends_at = time.monotonic() + seconds
        with self._lock:
            self._calls[thread] = Call(jobs, thread, seconds, ends_at, lease)
        try:
            yield
        finally:
            with self._lock:
                is_in_time = self._calls.pop(thread, None) is not None
                self._abandoned.discard(thread)
            if not is_in_time:
                raise Abandoned

    def _step(self) -> float | None:
        if self._duty.closing.is_set():
            return None
        for call in self._overdue():
            self._on_timeout(call, len(self._abandoned))
        with self._lock:
            next_end = min((call.ends_at for call in self._calls.values()), default=None)
        # A call that begins now ends at the earliest a whole limit later.
        most = self._shortest_seconds
        return most if next_end is None else min(max(0.001, next_end - time.monotonic()), most)

    def _overdue(self) -> list[Call]:
        now = time.monotonic()
        with self._lock:
            calls = [call for call in self._calls.values() if call.ends_at <= now]
            for call in calls:
                del self._calls[call.thread]
                self._abandoned.add(call.thread)
        return calls
