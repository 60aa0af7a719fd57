"""How long a worker waits that found nothing to take. The decision is pure; `look` asks the server.

A notification ends a wait early. It is a hint and may be missing: only one of the puts in flight
sends it, and the end of a job does not if it has not learnt yet that another one waits for it. So
while such a put or end may be under way, the worker looks again soon, then less and less often.
What nobody announces, such as a lock that expired, is polled for: by one of the idle workers of a
process, for all of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from milepost import db

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.runtime import Lease, Runtime

# In how many seconds something is due, if that is known; and whether something is under way that
# may not notify.
Look: TypeAlias = "tuple[float | None, bool]"
FIRST_LOOK_SECONDS = 0.001
LONGEST_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Pause:
    poll_seconds: float = 1.0
    fruitless_looks: int = 0

    def after(self, look: Look) -> tuple[float, Pause]:
        """The seconds to wait now, and the pause to continue with."""
        due_seconds, is_under_way = look
        seconds = self.poll_seconds
        if is_under_way:
            soon = FIRST_LOOK_SECONDS * 2 ** min(self.fruitless_looks, 10)
            seconds = min(seconds, soon, LONGEST_LOOK_SECONDS)
        if due_seconds is not None:
            seconds = min(seconds, max(due_seconds, FIRST_LOOK_SECONDS))
        return seconds, Pause(self.poll_seconds, self.fruitless_looks + 1)


def look(conn: Connection, schema: str) -> Look:
    seconds, is_under_way = db.fetch_one(conn, schema, "queue_look")
    return seconds, is_under_way


def is_drained(conn: Connection, schema: str, pattern: str) -> bool:
    """Whether nothing is left to do now in the channels of a pattern."""
    return bool(db.fetch_one(conn, schema, "queue_is_drained", pattern=pattern)[0])


@dataclass(slots=True, eq=False)
class Resting:
    """A worker that has nothing to do."""

    pattern: str
    poll_seconds: float
    wake: Callable[[], None]
    until: float = field(init=False)  # by the monotonic clock

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.poll_seconds


class Polls:
    """The idle workers of a process: `runtime.part(Polls)`. The first whose time has come polls for
    all of them, and wakes those that have something to take."""

    def __init__(self, runtime: Runtime) -> None:
        self._schema = runtime.schema
        self._lock = Lock()
        self._resting: set[Resting] = set()

    @contextmanager
    def resting(self, one: Resting, *, is_shared: bool) -> Iterator[None]:
        """If it is shared, any of the others may poll for it."""
        with self._lock:
            self._resting.update([one] if is_shared else [])
        try:
            yield
        finally:
            with self._lock:
                self._resting.discard(one)

    def poll(self, one: Resting, lease: Lease) -> None:
        """Unless another thread has just done so."""
        with self._lock:
            if one.until > time.monotonic():
                return
            asked = list(self._resting)
            _postpone(asked)
        patterns = [each.pattern for each in asked]
        (due_seconds, is_under_way), ready = lease.run(
            lambda conn: _ask(conn, self._schema, patterns)
        )
        for number, each in enumerate(asked, 1):
            if is_under_way or number in ready:
                each.wake()
        if due_seconds is not None:
            with self._lock:
                _postpone(asked, max(due_seconds, FIRST_LOOK_SECONDS))


def _postpone(asked: list[Resting], seconds: float = math.inf) -> None:
    now = time.monotonic()
    for each in asked:
        each.until = now + min(each.poll_seconds, seconds)


def _ask(conn: Connection, schema: str, patterns: list[str]) -> tuple[Look, set[int]]:
    """The duties first, as with each take: they make jobs ready. A put whose job is not ready yet
    is under way before."""
    db.run(conn, schema, "queue_duties")
    found = look(conn, schema)
    return found, {n for (n,) in db.fetch_all(conn, schema, "queue_poll", patterns=patterns)}
