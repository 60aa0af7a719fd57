"""The one definition of a lost server, and how long to wait before the next attempt.

A wrong URL or password fails immediately: it will fail again. A server that was lost (it restarts,
or the network was cut) is waited for. Before the first connection of a session only a server that
says that it is starting counts: a refused connection may just as well be a wrong port. A process
that runs until it is stopped also waits for one that cannot be reached, and says so: it may have
been started during a failover.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors as pg

from milepost.errors import ConnectionLost
from milepost.retry import Retry

if TYPE_CHECKING:
    from milepost.runtime.status import State

RECONNECT = Retry(first_seconds=0.1, longest_seconds=10.0)
_SOON_AND_OFTEN = Retry(first_seconds=0.05, longest_seconds=2.0)
# Errors of a connection attempt have no SQLSTATE. These are what a server says while it starts or
# stops. Any other refusal, such as of a password, will be repeated.
_CONNECTING = ("connection failed", "failed to resolve", "connection timeout", "attempts failed")
_STARTING = ("the database system is", "terminating connection")
_UNKNOWN_HOST = ("translate host name", "resolve host")
_FULL = ("too many clients", "connection slots are reserved")
# The server ended the session, or the connection to it broke.
_STARTING_STATES = ("57P01", "57P02", "57P03")
_OTHER_LOST_STATES = ("53300", "57P05")  # too many connections; idle for too long
_CONNECTION_CLASS = "08"
# What a task on an executor failed with reaches the driver as a string.
_SPARK_WORDS = ("adbc_driver_manager.OperationalError: IO", "psycopg.OperationalError")
_SPARK_MODULES = ("pyspark.", "py4j.")
# A statement that may run twice may also be run again after these.
_TRANSIENT = (
    pg.DeadlockDetected,
    pg.DiskFull,
    pg.LockNotAvailable,
    pg.OutOfMemory,
    pg.QueryCanceled,
    pg.SerializationFailure,
)


class ServerLost(Exception):
    """A connection is gone. What was in flight is rolled back or, if only the answer to its commit
    was lost, committed. The stored checkpoint tells which."""

    state: State = "reconnecting"  # of whoever waits for it


def is_server_lost(error: BaseException) -> bool:
    """Whether it can pass without anybody's help: the server restarts, or the network was cut."""
    if isinstance(error, ServerLost):
        return True
    if isinstance(error, psycopg.OperationalError):
        return _says_lost(error.sqlstate, str(error))
    module = f"{type(error).__module__}."
    if module.startswith("adbc_driver_manager.") and type(error).__name__ == "OperationalError":
        return _is_adbc_lost(error)
    if module.startswith(_SPARK_MODULES):
        return any(words in str(error) for words in _SPARK_WORDS)
    # What breaks between two batches comes through Arrow's stream, which has no SQLSTATE: a plain
    # OSError. Those of files and of other connections, as to the JVM, have a class or a number.
    return type(error) is OSError and error.errno is None and _says_lost(None, str(error))


@contextmanager
def naming_loss() -> Iterator[None]:
    """For operators: our error if the server is lost in the middle of their command. An error of
    the attempt to connect stays: it names the address, and nothing was done yet."""
    try:
        yield
    except psycopg.OperationalError as error:
        text = " ".join((error.diag.message_primary or str(error)).split())
        if not is_server_lost(error) or any(words in text for words in _CONNECTING):
            raise
        raise ConnectionLost(text.rstrip(".")) from error


def is_server_starting(error: BaseException) -> bool:
    """Whether the server itself said that it starts, stops or recovers."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    if error.sqlstate is not None:
        return error.sqlstate in _STARTING_STATES
    return any(words in str(error) for words in _STARTING)


def is_server_away(error: BaseException) -> bool:
    """Whether a first connection could not reach a server that may come. A name of a host that
    nobody knows is a wrong URL."""
    return is_server_lost(error) and not any(words in str(error) for words in _UNKNOWN_HOST)


def is_transient(error: BaseException) -> bool:
    """Whether a statement that may safely run twice should be tried again, on a new connection."""
    return isinstance(error, _TRANSIENT) or is_server_lost(error)


def _is_adbc_lost(error: Any) -> bool:
    """Not imported for this: the driver is part of an extra."""
    return error.status_code.name == "IO" and _says_lost(error.sqlstate, str(error))


def _says_lost(sqlstate: str | None, text: str) -> bool:
    if sqlstate is not None:
        known = (*_STARTING_STATES, *_OTHER_LOST_STATES)
        return sqlstate in known or sqlstate.startswith(_CONNECTION_CLASS)
    is_answered = any(word in text for word in ("ERROR:", "FATAL:"))
    return not is_answered or any(words in text for words in (*_STARTING, *_FULL))


@dataclass(slots=True)
class Backoff:
    """How long to wait after each failure in a row."""

    retry: Retry = RECONNECT
    failures: int = field(default=0, init=False)

    def next_seconds(self) -> float:
        self.failures += 1
        return self.retry.delay_seconds(self.failures, random.random())  # noqa: S311

    def reset(self) -> None:
        self.failures = 0


@dataclass(slots=True)
class Patience:
    """How long to go on trying since something last went well."""

    seconds: float
    retry: Retry = _SOON_AND_OFTEN
    _backoff: Backoff = field(init=False)
    _since: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._backoff = Backoff(self.retry)

    def went_well(self) -> None:
        self._backoff.reset()
        self._since = None

    def wait_or_raise(self, error: Exception) -> None:
        """Wait a little after a lost server. Raise any other error, and this one after too long."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if not is_server_lost(error) or now - self._since >= self.seconds:
            raise error
        time.sleep(self._backoff.next_seconds())
