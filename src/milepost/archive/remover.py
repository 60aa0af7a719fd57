"""The duty to remove: a member of a run that removes what the policy does not keep, every minute.

Of all processes one removes at a time: who begins notes the time in the policy's row, and the
others leave it alone until it is time again.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, ClassVar

from milepost import db
from milepost.archive.retention import remove_old
from milepost.errors import NoRetention
from milepost.runtime import Stopping

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.db import Connection
    from milepost.runtime import Runtime, Until
    from milepost.sql import Activity

NAME = "milepost.retention"
log = logging.getLogger("milepost.archive")


@dataclass(frozen=True, slots=True)
class Remover:
    runtime: Runtime
    name: ClassVar[str] = NAME
    activity: ClassVar[Activity] = "read"
    own_connections: ClassVar[int] = 0

    def run(self, until: Until = "stopped", stop: Event | None = None) -> None:
        stop = stop or Event()
        lease = self.runtime.connections.lease("retention", stop)
        with closing(lease):
            try:
                while not stop.is_set():
                    lease.run(lambda conn: self._remove(conn, until, stop))
                    if until != "stopped":
                        return
                    stop.wait(self.runtime.timing.removal_seconds)
            except Stopping:
                log.info("retention stops without the server")

    def caught_up(self) -> bool:
        """What is removed does not matter to anybody."""
        return True

    def _remove(self, conn: Connection, until: Until, stop: Event) -> None:
        """In rounds that end before another process may begin."""
        while not stop.is_set():
            if until == "stopped" and not self._claims(conn):
                return
            deadline = time.monotonic() + self.runtime.timing.removal_seconds
            self._remove_until(conn, partial(_is_over, stop, deadline))
            if time.monotonic() < deadline:
                return

    def _claims(self, conn: Connection) -> bool:
        schema, seconds = self.runtime.schema, self.runtime.timing.removal_seconds
        with db.owning(conn, schema):
            return bool(db.fetch_all(conn, schema, "retention_claim", every_seconds=seconds))

    def _remove_until(self, conn: Connection, is_over: Callable[[], bool]) -> None:
        try:
            done = remove_old(conn, self.runtime.schema, is_over=is_over)
        except NoRetention:
            return
        if done.number:
            log.info("retention removed=%s up_to=%s", done.number, done.removed)


def _is_over(stop: Event, deadline: float) -> bool:
    return stop.is_set() or time.monotonic() >= deadline
