"""Fills the history: each second while somebody watches and for a minute after, else once a minute.

Whoever goes from one page to the next does not watch for a moment: the charts have no gap there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

import psycopg

from milepost.errors import MilepostError
from milepost.ui.observed import snapshot

if TYPE_CHECKING:
    from milepost.ui.observed.board import Board
    from milepost.ui.observed.history import History

MINUTE = 60.0


@dataclass(slots=True)
class Sampler:
    """A thread that starts with the first request: an application that is mounted in another is
    not told of the start."""

    board: Board
    history: History
    is_watched: Callable[[], bool]
    _stop: Event = field(default_factory=Event, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)  # one thread only
    _thread: Thread | None = field(default=None, init=False)

    def start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = Thread(target=self._run, name="milepost-sampler", daemon=True)
                self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def _run(self) -> None:
        last = watched = 0.0
        while not self._stop.wait(1.0 - time.time() % 1.0 if last else 0.0):
            now = time.time()  # just after a second has begun: each second has its sample
            watched = now if self.is_watched() else watched
            if now - watched < MINUTE or now - last >= MINUTE:
                last = now
                self._sample(now)

    def _sample(self, now: float) -> None:
        """What cannot be read now is missing in the charts; the pages say why."""
        try:
            self.history.note(now, snapshot.values(snapshot.take(self.board)))
        except (psycopg.Error, MilepostError):
            return
