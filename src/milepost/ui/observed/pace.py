"""At most five queries a second, for pages, charts and the checks of the doctor together."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

import psycopg

from milepost import sql

if TYPE_CHECKING:
    from milepost.db import Connection

QUERIES_A_SECOND = 5
KEPT_FOR_PAGES = 1
LOOK_AGAIN_SECONDS = 0.02  # whether a page still waits


@dataclass(slots=True)
class Pace:
    """The queries of the last second. Who is patient leaves one of them, and waits while anybody
    else does: what streams and the doctor read may come later, but not what a page waits for."""

    clock: Callable[[], float] = time.monotonic
    rest: Callable[[float], object] | None = None  # None: wait, or until the end
    _begun: deque[float] = field(default_factory=deque, init=False)
    _end: Event = field(default_factory=Event, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)  # guards _begun and _hurried
    _hurried: int = field(default=0, init=False)

    def has_room(self, *, is_patient: bool = False) -> bool:
        """Whether a query is allowed now."""
        return self._room_in(is_patient=is_patient) == 0.0

    def wait_for_room(self) -> None:
        """For the patient, before they begin what others would have to wait for."""
        self._wait_while(lambda: self._room_in(is_patient=True))

    def take_turn(self, *, is_patient: bool = False) -> None:
        """Wait until a query is allowed, and count it."""
        self._wait_while(lambda: self._try(is_patient=is_patient))

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """In the block, the patient wait."""
        with self._lock:
            self._hurried += 1
        try:
            yield
        finally:
            with self._lock:
                self._hurried -= 1

    def end(self) -> None:
        """Nobody waits any more: what runs, ends soon."""
        self._end.set()

    def keep(self, conn: Connection, *, is_patient: bool = False) -> Connection:
        """Let each query of a connection take its turn. Not what only sets a time limit."""
        limits = sql.query("time_limits")

        class Paced(psycopg.Cursor[Any]):
            def execute(self_, query: Any, *args: Any, **options: Any) -> Paced:  # noqa: N805
                if query != limits:
                    self.take_turn(is_patient=is_patient)
                super().execute(query, *args, **options)
                return self_

        conn.cursor_factory = Paced
        return conn

    def _wait_while(self, seconds: Callable[[], float]) -> None:
        rest = self.rest or self._end.wait
        while (wait_seconds := seconds()) > 0 and not self._end.is_set():
            rest(wait_seconds)

    def _room_in(self, *, is_patient: bool) -> float:
        with self._lock:
            return self._wait_seconds(is_patient=is_patient)

    def _try(self, *, is_patient: bool) -> float:
        with self._lock:
            wait_seconds = self._wait_seconds(is_patient=is_patient)
            if wait_seconds == 0:
                self._begun.append(self.clock())
            return wait_seconds

    def _wait_seconds(self, *, is_patient: bool) -> float:
        """Until there are few enough within the last second."""
        if is_patient and self._hurried:
            return LOOK_AGAIN_SECONDS
        at_most = QUERIES_A_SECOND - KEPT_FOR_PAGES if is_patient else QUERIES_A_SECOND
        now = self.clock()
        while self._begun and now - self._begun[0] >= 1.0:
            self._begun.popleft()
        if len(self._begun) < at_most:
            return 0.0
        return max(1.0 - (now - self._begun[-at_most]), 0.001)
