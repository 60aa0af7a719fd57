"""What a running instance reports about itself: its state, counters, rate and last error.

Reports are statements of their own on a connection in autocommit mode, never part of a batch.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
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
        level = logging.INFO if error is None else logging.WARNING
        suffix = "" if error is None else f" error={error!r}"
        self.log.log(level, "%s state=%s owner=%s%s", self, state, self.owner, suffix)
        if conn is not None and not conn.closed:
            self.write(conn, error)

    def seconds_since_report(self) -> float:
        return self.clock() - self.reported_at

    def __str__(self) -> str:
        return f"{self.kind}={self.name} version={self.version}"
