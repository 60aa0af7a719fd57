"""Which loops of a run turn: when each last did, and what the members say about their state.

Judged by time are the loops of duties only: the watcher, and what keeps claims, locks and jobs.
They call no function of the user and wait for no other instance. A member's own thread is not: a
handler or a batch of Spark may take hours, and so may the wait for the instance that has the turn.
Its thread only has to be there.

A thread belongs to the run that has started it, and so do the duties that it starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.runtime.status import Status


@dataclass(slots=True, eq=False)
class Pulse:
    """Of one loop. `due_at`: when it turns again, if it turns as soon as it has said."""

    name: str
    clock: Callable[[], float]
    due_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.turned()

    def turned(self, rest_seconds: float = 0.0) -> None:
        """It has turned, and rests for so long."""
        self.due_at = self.clock() + rest_seconds


@dataclass(slots=True, eq=False)
class Pulses:
    """Of one run."""

    clock: Callable[[], float] = time.monotonic
    _lock: Lock = field(default_factory=Lock, init=False)
    _loops: list[Pulse] = field(default_factory=list, init=False)
    _statuses: list[Status] = field(default_factory=list, init=False)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """This thread is one of the run."""
        token = _RUN.set(self)
        try:
            yield
        finally:
            _RUN.reset(token)

    @contextmanager
    def loop(self, name: str) -> Iterator[Pulse]:
        pulse = Pulse(name, self.clock)
        with self._lock:
            self._loops.append(pulse)
        token = _LOOP.set(pulse)
        try:
            yield pulse
        finally:
            _LOOP.reset(token)
            with self._lock:
                self._loops.remove(pulse)

    @contextmanager
    def showing(self, status: Status) -> Iterator[None]:
        with self._lock:
            self._statuses.append(status)
        try:
            yield
        finally:
            with self._lock:
                self._statuses.remove(status)

    def late(self, limit_seconds: float) -> dict[str, float]:
        """The loops that should have turned longer ago than this, and how long ago in seconds."""
        now = self.clock()
        with self._lock:
            late = {pulse.name: now - pulse.due_at for pulse in self._loops}
        return {name: seconds for name, seconds in late.items() if seconds > limit_seconds}

    def status_of(self, kind: str, name: str) -> Status | None:
        """Of a processor or pipeline that runs now."""
        with self._lock:
            return next((s for s in self._statuses if (s.kind, s.name) == (kind, name)), None)


_RUN: ContextVar[Pulses | None] = ContextVar("milepost_run", default=None)
_LOOP: ContextVar[Pulse | None] = ContextVar("milepost_loop", default=None)


def of_this_run() -> Pulses:
    """A thread that belongs to none has one that nobody asks."""
    return _RUN.get() or Pulses()


def turned(rest_seconds: float) -> None:
    """The loop of this thread is about to rest inside its turn: it waits for its bell, or for a
    server that is lost, and looks again after this time."""
    if (pulse := _LOOP.get()) is not None:
        pulse.turned(rest_seconds)
