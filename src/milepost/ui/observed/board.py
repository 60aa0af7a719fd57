"""What pages read, cached: many browsers cost the server as much as one.

Whoever asks for the same key within a second is given the same answer, and threads that ask
concurrently wait for one read. When the queries of this second are used up, the last answer is
given again, if there is one. Pages come first: what streams read waits for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from milepost import db
from milepost.errors import MilepostError
from milepost.log.diagnose import limited
from milepost.ui.observed.pace import Pace

if TYPE_CHECKING:
    from milepost.db import Connection

T = TypeVar("T")
# A little less than a second: who asks each second is given a new answer each time.
FRESH_SECONDS = 0.95
HALF_SECONDS = 0.45  # for what is cheap to read and should be seen soon
LOOK_SECONDS = 10.0  # for one read
KEPT_SECONDS = 60.0  # an answer that nobody has asked for since then is forgotten


# Of the thread that renders for a stream.
_IS_PATIENT: ContextVar[bool] = ContextVar("milepost_ui_is_patient", default=False)


@contextmanager
def patiently() -> Iterator[None]:
    """What is looked at in the block comes after what pages look at."""
    token = _IS_PATIENT.set(True)
    try:
        yield
    finally:
        _IS_PATIENT.reset(token)


@dataclass(slots=True)
class _Answer:
    """To one key. Its lock makes others wait for a read that has begun."""

    lock: Lock = field(default_factory=Lock)
    value: Any = None
    read_at: float | None = None
    asked_at: float = 0.0


@dataclass(slots=True)
class Board:
    """Reads over one connection: opened with the first read, and again after it was lost."""

    open: Callable[[], AbstractContextManager[Connection]]
    schema: str
    pace: Pace = field(default_factory=Pace)
    clock: Callable[[], float] = time.monotonic
    _answers: dict[object, _Answer] = field(default_factory=dict, init=False)
    _table: Lock = field(default_factory=Lock, init=False)  # guards _answers
    _line: Lock = field(default_factory=Lock, init=False)  # one thread uses the connection
    _stack: ExitStack = field(default_factory=ExitStack, init=False)
    _conn: Connection | None = field(default=None, init=False)
    _is_closed: bool = field(default=False, init=False)

    def look(
        self,
        key: object,
        reader: Callable[[Connection, str], T],
        fresh_seconds: float = FRESH_SECONDS,
    ) -> T:
        """What the reader has read within the last second, or reads now. Answers are shared: nobody
        may change them. Raises what the read raises."""
        answer, is_patient = self._answer(key), _IS_PATIENT.get()
        if is_patient and answer.read_at is None:
            self.pace.wait_for_room()  # not with a lock that a page may wait for
        with nullcontext() if is_patient else self.pace.hurried(), answer.lock:
            if not self._is_fresh(answer, fresh_seconds) and (
                answer.read_at is None or self.pace.has_room(is_patient=is_patient)
            ):
                answer.value = self._read(reader)
                answer.read_at = self.clock()
            found: T = answer.value
            return found

    def forget(self) -> None:
        """After an action: what was read before it is not shown any more."""
        with self._table:
            self._answers.clear()

    def close(self) -> None:
        """A page that is still being rendered may read after this: it leaves no connection open."""
        with self._line:
            self._is_closed = True
            self._disconnect()

    def _answer(self, key: object) -> _Answer:
        now = self.clock()
        with self._table:
            for old in [k for k, a in self._answers.items() if now - a.asked_at > KEPT_SECONDS]:
                del self._answers[old]
            answer = self._answers.setdefault(key, _Answer())
            answer.asked_at = now
            return answer

    def _is_fresh(self, answer: _Answer, seconds: float) -> bool:
        return answer.read_at is not None and self.clock() - answer.read_at < seconds

    def _read(self, reader: Callable[[Connection, str], T]) -> T:
        with self._line:
            try:
                conn = self._connected()
                with limited(conn, LOOK_SECONDS), db.acting(conn, "metrics"):
                    return reader(conn, self.schema)
            except (psycopg.Error, MilepostError):
                if self._conn is None or self._conn.broken or self._conn.closed:
                    self._disconnect()
                raise
            finally:
                if self._is_closed:
                    self._disconnect()

    def _connected(self) -> Connection:
        """A connection that the server has closed meanwhile is found out by the read: it fails, and
        the next one is on a new connection."""
        if self._conn is None:
            self._conn = self.pace.keep(self._stack.enter_context(self.open()))
        return self._conn

    def _disconnect(self) -> None:
        self._conn = None
        self._stack.close()
