"""What pages read, cached: many browsers cost the server as much as one.

Whoever asks for the same key within a second is given the same answer, and threads that ask
concurrently wait for one read. All reads together are at most five a second: when they are used up,
the last answer is given again, if there is one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from milepost import db
from milepost.errors import MilepostError
from milepost.log.diagnose import limited

if TYPE_CHECKING:
    from milepost.db import Connection

T = TypeVar("T")
# A little less than a second: who asks each second is given a new answer each time.
FRESH_SECONDS = 0.95
READS_A_SECOND = 5
LOOK_SECONDS = 10.0  # for one read
KEPT_SECONDS = 60.0  # an answer that nobody has asked for since then is forgotten


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
    clock: Callable[[], float] = time.monotonic
    rest: Callable[[float], None] = time.sleep
    _answers: dict[object, _Answer] = field(default_factory=dict, init=False)
    _table: Lock = field(default_factory=Lock, init=False)  # guards _answers and _reads
    _line: Lock = field(default_factory=Lock, init=False)  # one thread uses the connection
    _reads: deque[float] = field(default_factory=deque, init=False)
    _stack: ExitStack = field(default_factory=ExitStack, init=False)
    _conn: Connection | None = field(default=None, init=False)

    def look(self, key: object, reader: Callable[[Connection, str], T]) -> T:
        """What the reader has read within the last second, or reads now. Answers are shared: nobody
        may change them. Raises what the read raises."""
        answer = self._answer(key)
        with answer.lock:
            if not self._is_fresh(answer) and self._may_read(answer):
                answer.value = self._read(reader)
                answer.read_at = self.clock()
            found: T = answer.value
            return found

    def forget(self) -> None:
        """After an action: what was read before it is not shown any more."""
        with self._table:
            self._answers.clear()

    def close(self) -> None:
        with self._line:
            self._disconnect()

    def _answer(self, key: object) -> _Answer:
        now = self.clock()
        with self._table:
            for old in [k for k, a in self._answers.items() if now - a.asked_at > KEPT_SECONDS]:
                del self._answers[old]
            answer = self._answers.setdefault(key, _Answer())
            answer.asked_at = now
            return answer

    def _is_fresh(self, answer: _Answer) -> bool:
        return answer.read_at is not None and self.clock() - answer.read_at < FRESH_SECONDS

    def _may_read(self, answer: _Answer) -> bool:
        """Takes one of this second's reads. Where there is no earlier answer, waits for one."""
        while (wait_seconds := self._take_turn()) > 0:
            if answer.read_at is not None:
                return False
            self.rest(wait_seconds)
        return True

    def _take_turn(self) -> float:
        """How long until the next read is allowed; 0: now, and it is counted."""
        with self._table:
            now = self.clock()
            while self._reads and now - self._reads[0] >= 1.0:
                self._reads.popleft()
            if len(self._reads) >= READS_A_SECOND:
                return 1.0 - (now - self._reads[0])
            self._reads.append(now)
            return 0.0

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

    def _connected(self) -> Connection:
        """A connection that the server has closed meanwhile is found out by the read: it fails, and
        the next one is on a new connection."""
        if self._conn is None:
            self._conn = self._stack.enter_context(self.open())
        return self._conn

    def _disconnect(self) -> None:
        self._conn = None
        self._stack.close()
