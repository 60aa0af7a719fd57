"""Wakes one thread that waits, perhaps for its connection as well.

Ringing costs next to nothing while that thread is awake: handlers ring at every job.
"""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING

from milepost.runtime.pulse import turned

if TYPE_CHECKING:
    from milepost.db import Connection


class Bell:
    """`_is_rung` is set before `_rests` is read, and the other way round where somebody waits:
    one of the two sees the other, and no ring is lost."""

    def __init__(self) -> None:
        self._is_rung = False
        self._rests = False
        self._out, self._in = socket.socketpair()
        self._out.setblocking(False)
        self._in.setblocking(False)

    def ring(self) -> None:
        self._is_rung = True
        if self._rests:
            self._rests = False
            self._send()

    def wait(self, seconds: float, conn: Connection | None = None) -> bool:
        """Until it rings (or has since the last wait), the connection has something to read, or
        the time is over; whether it rang."""
        turned(seconds)
        self._rests = True
        if not self._is_rung:
            poll = select.poll()
            for source in (self._in, conn):
                if source is not None:
                    poll.register(source, select.POLLIN)
            poll.poll(seconds * 1000)
            self._empty()
        self._rests = False
        if not self._is_rung:
            return False
        # Only now: a ring after the question above stays for the next wait.
        self._is_rung = False
        return True

    def close(self) -> None:
        self._out.close()
        self._in.close()

    def _empty(self) -> None:
        try:
            self._in.recv(4096)
        except BlockingIOError:  # it was the connection, or the time was over
            return

    def _send(self) -> None:
        try:
            self._out.send(b"!")
        except BlockingIOError:  # so many rings wait already that one more says nothing
            return
