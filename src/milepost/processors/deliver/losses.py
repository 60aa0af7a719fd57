"""Messages whose handler ends its own database session, again and again, while the server lives.

A lost server is nobody's failure: the next session starts again, and nothing is counted. A handler
that ends its backend would be started again for ever. So what was handled when only this session
was lost is handled alone from then on, and what loses it alone is counted as an attempt.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg

from milepost import db
from milepost.errors import MilepostError, SessionEnded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.records import Position, RecordedMessage
    from milepost.runtime import Lease

# Operators and failovers end sessions too, and sometimes several in a row.
LEAST = 5


@dataclass(slots=True)
class Losses:
    """Of one instance, beyond its sessions."""

    _times: dict[Position, int] = field(default_factory=dict, init=False)

    def note(self, messages: Sequence[RecordedMessage]) -> None:
        """After the session was lost while these were handled, and no other was."""
        for message in messages:
            before = self._times.get(message.position, 0)
            self._times[message.position] = before + (len(messages) == 1)

    def are_suspect(self, messages: Sequence[RecordedMessage]) -> bool:
        return bool(self._times) and any(each.position in self._times for each in messages)

    def given_up(self, message: RecordedMessage, limit: int = 0) -> SessionEnded | None:
        """What its handler failed with, once the session was lost too often with it alone."""
        times = self._times.get(message.position, 0)
        if times <= max(limit, LEAST):
            return None
        self.forget(message)
        return SessionEnded(times)

    def forget(self, message: RecordedMessage) -> None:
        self._times.pop(message.position, None)


def is_alone(lease: Lease, began: float) -> bool:
    """Whether only a session was lost since then: another can be opened, on a server that has not
    started since."""
    probe = lease.connections.lease("probe", lease.stop, is_own=True)
    try:
        with probe as conn:
            uptime = db.fetch_one(conn, lease.connections.schema, "server_uptime")[0]
    except (psycopg.Error, MilepostError):
        return False
    finally:
        probe.close()
    return bool(uptime > time.monotonic() - began)
