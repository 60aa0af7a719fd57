"""A processor as its author holds it: callable as its handler, runnable, waitable."""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any

from milepost import db
from milepost.checkpoints import PostgresCheckpointStore
from milepost.errors import WaitTimedOut
from milepost.log import Horizon, horizon, read_batch
from milepost.processors import admin
from milepost.processors.runner import Runner
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.log import Start
    from milepost.processors.definition import Definition
    from milepost.processors.session import Until

WAIT_FIRST_SECONDS = 0.005
WAIT_LONGEST_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Processor:
    """Made by `@mp.processor(...)`. Calling it calls the handler, as in a unit test."""

    definition: Definition
    url: str
    schema: str

    @property
    def name(self) -> str:
        return self.definition.options.name

    def __call__(self, *arguments: Any) -> Any:
        return self.definition.handler(*arguments)

    def run(self, until: Until = "stopped", stop: Event | None = None) -> None:
        """Run one instance in this thread, until `stop` is set or it has caught up."""
        self.runner(stop or Event()).run(until)

    def runner(self, stop: Event) -> Runner:
        return Runner(self.definition, self.url, self.schema, stop)

    def position(self) -> Position | None:
        """Its checkpoint; None before it has ever run."""
        with db.connect(self.url) as conn:
            return self._checkpoint(conn)

    def reset(self, to: Start, tx: Connection) -> Position:
        """Put its checkpoint elsewhere in the caller's transaction, in which the tables that it
        fills are emptied too. It goes on from there, running or not."""
        return admin.reset(tx, self.schema, self.definition.options.key, to)

    def caught_up(self) -> bool:
        """Whether nothing that it reads lies between its checkpoint and the horizon."""
        with db.connect(self.url) as conn:
            return self._has_seen(conn, horizon(conn, self.schema).position)

    def wait_for(self, position: Position, timeout: float = 10.0) -> None:
        """Return once everything up to `position` has been handled: read your own writes.
        Raises WaitTimedOut after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        wait = WAIT_FIRST_SECONDS
        with db.connect(self.url) as conn:
            while not self._has_passed(conn, position):
                if time.monotonic() >= deadline:
                    raise self._timed_out(conn, position, timeout)
                Event().wait(min(wait, max(0.0, deadline - time.monotonic())))
                wait = min(wait * 2, WAIT_LONGEST_SECONDS)

    def _has_passed(self, conn: Connection, position: Position) -> bool:
        """Also where the checkpoint stands lower, if all between was filtered out."""
        checkpoint = self._checkpoint(conn)
        if checkpoint is not None and checkpoint >= position:
            return True
        return horizon(conn, self.schema).position >= position and self._has_seen(conn, position)

    def _has_seen(self, conn: Connection, position: Position) -> bool:
        checkpoint = self._checkpoint(conn)
        if checkpoint is None:
            return False
        batch = read_batch(
            conn,
            checkpoint,
            Horizon(position, is_held=False),
            self.definition.options.selection,
            batch_size=1,
            schema=self.schema,
        )
        return not batch.messages

    def _checkpoint(self, conn: Connection) -> Position | None:
        found = PostgresCheckpointStore(conn, self.schema).load(self.definition.options.key)
        return None if found is None else found.position

    def _timed_out(self, conn: Connection, position: Position, timeout: float) -> WaitTimedOut:
        return WaitTimedOut(
            self.name,
            f"had not reached {position} after {timeout:g} s; its checkpoint is "
            f"{self._checkpoint(conn)}. Is it running? See: milepost processors",
        )
