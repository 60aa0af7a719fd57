"""Stand by while another instance works: on one connection, with one small query a look.

A session of its own would cost the server and this process two connections and a batch that is read
in vain, every time. It is opened when the one that works seems to have stopped.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

import psycopg

from milepost import db
from milepost.checkpoints import Checkpoint, PostgresCheckpointStore
from milepost.processors.turn import Turn
from milepost.retry import Retry

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.processors.definition import ProcessorOptions

# A standby looks again within this, so that it takes over within seconds.
STANDBY = Retry(first_seconds=0.2, longest_seconds=1.0)


@dataclass(frozen=True, slots=True)
class Standby:
    options: ProcessorOptions
    url: str = field(repr=False)
    schema: str
    stop: Event
    chance: Callable[[], float] = random.random

    def wait(self, attempts: int) -> None:
        """Until it is worth trying to work, or a stop is asked for. Longer, the more attempts have
        been in vain. What the server lacks is for the next session to find out."""
        try:
            with db.connect(self.url, application_name=self._name) as conn:
                self._wait(conn, attempts)
        except psycopg.OperationalError:
            self.rest(attempts)

    def rest(self, attempts: int) -> None:
        self.stop.wait(STANDBY.delay_seconds(attempts, self.chance()))

    def _wait(self, conn: Connection, attempts: int) -> None:
        before = self.look(conn)
        while not self.stop.is_set():
            self.rest(attempts)
            attempts += 1
            now = self.look(conn)
            if self._may_work(conn, before, now):
                return
            before = now

    def look(self, conn: Connection) -> Checkpoint | None:
        return PostgresCheckpointStore(conn, self.schema).load(self.options.key)

    def _may_work(
        self, conn: Connection, before: Checkpoint | None, now: Checkpoint | None
    ) -> bool:
        """At least once, whoever has the turn works, however long it takes. Exactly once, the one
        that works moves the checkpoint: if it has not, there is nothing to do, it is dead, or its
        handler is slow, which the lock on the row will tell."""
        if self.options.delivery == "at_least_once":
            return Turn(self.options.key, conn, self.schema).is_free()
        return now == before

    @property
    def _name(self) -> str:
        return f"milepost {self.options.name}"[:63]
