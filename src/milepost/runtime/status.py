"""What a running instance reports about itself: its state, counters, rate and last error.

Reports are statements of their own on a connection in autocommit mode, never part of a batch.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

if TYPE_CHECKING:
    from milepost.db import Connection

State: TypeAlias = Literal[
    "starting",
    "running",
    "standby",
    "paused",
    "rebuilding",
    "reconnecting",
    "waiting",
    "retrying",
    "failed",
    "stopped",
]


FIRST_REPEATS = 5
REPEAT_SECONDS = 10.0
MOST_TEXTS = 100


@dataclass(slots=True)
class Repeats:
    """Failures that say the same, as hundreds of jobs do that lack one table: the first few are
    logged, and then one in REPEAT_SECONDS with the number of the others."""

    clock: Callable[[], float] = time.monotonic
    # Since when it is counted, how often it was logged since, and how often not.
    _seen: dict[str, tuple[float, int, int]] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def note(self, text: str) -> str | None:
        """What to add to the line in the log; None: it is only counted."""
        with self._lock:
            now = self.clock()
            since, logged, more = self._seen.pop(text, (now, 0, 0))
            if now - since >= REPEAT_SECONDS:
                since, logged = now, FIRST_REPEATS - 1 if more else 0
            is_logged = logged < FIRST_REPEATS
            while len(self._seen) >= MOST_TEXTS:
                self._seen.pop(next(iter(self._seen)))
            self._seen[text] = (since, logged + 1, 0) if is_logged else (since, logged, more + 1)
        if not is_logged:
            return None
        return f" ({more} more of the same since the last line)" if more else ""


@dataclass(slots=True)
class Status(ABC):
    """Keeps the instance's row true, with no more statements than needed."""

    kind: ClassVar[str]  # "processor" or "pipeline": how its log lines begin
    log: ClassVar[logging.Logger]

    owner: str
    schema: str
    clock: Callable[[], float] = time.monotonic
    state: State = "starting"
    progress: int = field(default=0, init=False)  # batches that were committed
    is_active: bool = field(default=False, init=False)  # the row is this instance's
    reported_at: float = field(default=0.0, init=False)
    _repeats: Repeats = field(default_factory=Repeats, init=False)

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def version(self) -> int: ...

    @abstractmethod
    def write(self, conn: Connection, error: str | None = None) -> None:
        """Write the row."""

    def change(self, conn: Connection | None, state: State, error: str | None = None) -> None:
        """The state changes: one line in the log, and the row if there is a connection."""
        if state == self.state and error is None:
            return
        self.state = state
        if error is None:
            self.log.info("%s state=%s owner=%s", self, state, self.owner)
        elif (more := self._repeats.note(f"{state} {error}")) is not None:
            text = "%s state=%s owner=%s error=%r%s"
            self.log.warning(text, self, state, self.owner, error, more)
        if conn is not None and not conn.closed:
            self.write(conn, error)

    def seconds_since_report(self) -> float:
        return self.clock() - self.reported_at

    def __str__(self) -> str:
        return f"{self.kind}={self.name} version={self.version}"
