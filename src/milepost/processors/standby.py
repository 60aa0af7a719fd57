"""Stand by while another instance works, with one small query for each look.

A session of its own would read a batch in vain every time. It is opened when the instance that
works seems to have stopped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

from milepost.checkpoints import Checkpoint, PostgresCheckpointStore
from milepost.processors.segments.claims import end_silent
from milepost.processors.turn import is_free
from milepost.retry import Retry
from milepost.runtime import Backoff, is_server_lost

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.processors.definition import ProcessorOptions
    from milepost.processors.status import ProcessorStatus
    from milepost.runtime import Lease, Runtime, Until

# A standby looks again within this, so that it takes over within seconds.
STANDBY = Retry(first_seconds=0.2, longest_seconds=1.0)


@dataclass(slots=True)
class Standby:
    """Waits longer, the more attempts to work have been in vain since the last batch."""

    options: ProcessorOptions
    runtime: Runtime
    status: ProcessorStatus
    stop: Event
    pace: Retry = STANDBY
    _backoff: Backoff = field(init=False)
    _progress: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._backoff = Backoff(self.pace)

    def wait(self, until: Until) -> None:
        """Until it is worth trying to work, or a stop is requested."""
        if self.status.progress > self._progress:
            self._backoff.reset()
        self._progress = self.status.progress
        # Without a connection: the row in `processors` is the active instance's.
        self.status.change(None, "standby")
        lease = self.runtime.connections.lease(self.options.name, self.stop)
        try:
            with lease as conn:
                self._end_silent(conn)
            if until == "stopped":
                self._wait(lease)
            else:
                self._rest()  # the next session sees whether the other has caught up
        except Exception as error:
            if not is_server_lost(error):
                raise
            self._rest()  # what the server lacks is for the next session to find out
        finally:
            lease.close()

    def _wait(self, lease: Lease) -> None:
        before = self.look(lease)
        while not self.stop.is_set():
            self._rest()
            now = self.look(lease)
            with lease as conn:
                if self._may_work(conn, before, now):
                    return
            before = now

    def _rest(self) -> None:
        self.stop.wait(self._backoff.next_seconds())

    def look(self, lease: Lease) -> Checkpoint | None:
        with lease as conn:
            return PostgresCheckpointStore(conn, self.runtime.schema).load(self.options.key)

    def _may_work(
        self, conn: Connection, before: Checkpoint | None, now: Checkpoint | None
    ) -> bool:
        """At least once, the instance that has the turn works, however long it takes. Exactly once,
        the one that works moves the checkpoint: if it has not, there is nothing to do, it is dead,
        or its handler is slow, which the lock on the row will show."""
        if self.options.delivery == "exactly_once":
            return now == before
        if is_free(conn, self.runtime.schema, self.options.key):
            return True
        self._end_silent(conn)
        return False

    def _end_silent(self, conn: Connection) -> None:
        options = self.options
        end_silent(conn, self.runtime.schema, options.key, options.claim_seconds)
