"""A request to stop that wakes those who rest: they wait for messages or jobs, not for a stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event


class Stop(Event):
    """Not to be set by a signal handler: the thread that it interrupts may hold the Event's lock,
    and so may the handler itself when the next signal interrupts it."""

    def __init__(self) -> None:
        super().__init__()
        self._wakes: list[Callable[[], None]] = []

    def set(self) -> None:
        super().set()
        for wake in tuple(self._wakes):
            wake()

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Whoever rests looks at `is_set` after each wake-up: no stop in between is missed."""
        self._wakes.append(wake)
        try:
            yield
        finally:
            self._wakes.remove(wake)


@contextmanager
def waking(stop: Event, wake: Callable[[], None]) -> Iterator[None]:
    """A caller's own Event wakes nobody: it is noticed at the next look."""
    if not isinstance(stop, Stop):
        yield
        return
    with stop.waking(wake):
        yield
