"""Waiting for a server that restarts, instead of failing a task or a query over it."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

import adbc_driver_manager
import psycopg

from milepost.retry import Retry

# What a server says while it starts, stops or is full. Any other refusal at the door, such as
# of a password, will be said again.
_PASSING = (
    "the database system is",
    "terminating connection",
    "too many clients",
    "connection slots are reserved",
)
# The server ended the session, or the connection to it broke.
_LOST_STATES = ("57P01", "57P02", "57P03", "53300")
_LOST_CLASS = "08"
_SOON_AND_OFTEN = Retry(first_seconds=0.05, longest_seconds=2.0)


def is_server_lost(error: BaseException) -> bool:
    """Whether it may go away by itself: the server restarts, or the network was cut."""
    if isinstance(error, psycopg.OperationalError):
        return _is_passing(error.sqlstate, str(error))
    if isinstance(error, adbc_driver_manager.OperationalError):
        is_io = error.status_code == adbc_driver_manager.AdbcStatusCode.IO
        return is_io and _is_passing(error.sqlstate, str(error))
    # What breaks between two batches comes through Arrow's stream, which knows no SQLSTATE.
    return isinstance(error, OSError) and _is_passing(None, str(error))


def _is_passing(sqlstate: str | None, text: str) -> bool:
    if sqlstate is not None:
        return sqlstate in _LOST_STATES or sqlstate.startswith(_LOST_CLASS)
    is_answered = any(word in text for word in ("ERROR:", "FATAL:"))
    return not is_answered or any(words in text for words in _PASSING)


@dataclass(slots=True)
class Patience:
    """How long to go on trying since something last went well."""

    seconds: float
    retry: Retry = _SOON_AND_OFTEN
    _failures: int = field(default=0, init=False)
    _since: float | None = field(default=None, init=False)

    def went_well(self) -> None:
        self._failures, self._since = 0, None

    def wait_or_raise(self, error: Exception) -> None:
        """Wait a little after a lost server; raise the error if it is none, or for too long."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if not is_server_lost(error) or now - self._since >= self.seconds:
            raise error
        self._failures += 1
        time.sleep(self.retry.delay_seconds(self._failures, random.random()))  # noqa: S311
