"""The results of jobs that are kept, and waiting for them.

Waiting looks again and again, soon at first and then less often. It is not notified: a notification
would be paid by every job that is kept, also by those that nobody waits for. So it also works
through PgBouncer.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import orjson

from milepost.errors import (
    JobCancelled,
    JobFailed,
    JobUnfinished,
    ResultNotKept,
    ResultTimedOut,
)
from milepost.queue.lookups import Lookups
from milepost.runtime import is_transient

FIRST_SECONDS = 0.005
LONGEST_SECONDS = 0.1
DEFAULT_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Results:
    lookups: Lookups

    @property
    def schema(self) -> str:
        return self.lookups.schema

    def result(self, id_: int) -> Any:
        with self.lookups.in_use():
            return _result_in(id_, self.lookups.look(id_))

    async def result_async(self, id_: int) -> Any:
        with self.lookups.in_use():
            return _result_in(id_, await asyncio.to_thread(self.lookups.look, id_))

    def wait(self, id_: int, timeout: float = DEFAULT_TIMEOUT) -> Any:
        waiting = Waiting(id_, timeout, self.lookups)
        with self.lookups.in_use():
            while not waiting.is_over():
                time.sleep(waiting.pause_seconds())
        return waiting.result

    async def wait_async(self, id_: int, timeout: float = DEFAULT_TIMEOUT) -> Any:
        waiting = Waiting(id_, timeout, self.lookups)
        with self.lookups.in_use():
            while not await asyncio.to_thread(waiting.is_over):
                await asyncio.sleep(waiting.pause_seconds())
        return waiting.result


@dataclass(slots=True)
class Waiting:
    """One wait. A server that cannot be reached is waited for, too."""

    id: int
    timeout: float
    lookups: Lookups
    result: Any = field(default=None, init=False)
    _deadline: float = field(init=False)
    _pause: float = field(default=FIRST_SECONDS, init=False)

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.timeout

    def is_over(self) -> bool:
        """Raises what ends it without a result."""
        try:
            self.result = _result_in(self.id, self.lookups.look(self.id))
        except JobUnfinished as unfinished:
            if self._is_too_late():
                raise ResultTimedOut(self.id, unfinished.status, self.timeout) from None
            return False
        except Exception as error:
            if not is_transient(error) or self._is_too_late():
                raise
            return False
        return True

    def pause_seconds(self) -> float:
        """Before the next look."""
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_SECONDS)
        return max(0.0, min(pause, self._deadline - time.monotonic()))

    def _is_too_late(self) -> bool:
        return time.monotonic() >= self._deadline


@dataclass(frozen=True, slots=True)
class Handle:
    """A job that was put, and its result. `wait` is for after the commit of the transaction that
    put it: before that no worker sees the job."""

    id: int
    _results: Results = field(repr=False, compare=False)

    def result(self) -> Any:
        """The result of the finished job; raises JobUnfinished, JobFailed, JobCancelled or
        ResultNotKept."""
        return self._results.result(self.id)

    async def result_async(self) -> Any:
        """The same for coroutines."""
        return await self._results.result_async(self.id)

    def wait(self, timeout: float = DEFAULT_TIMEOUT) -> Any:
        """Wait until the job has finished, and return its result; raises ResultTimedOut after so
        many seconds."""
        return self._results.wait(self.id, timeout)

    async def wait_async(self, timeout: float = DEFAULT_TIMEOUT) -> Any:
        """The same for coroutines."""
        return await self._results.wait_async(self.id, timeout)


def _result_in(id_: int, rows: list[Any]) -> Any:
    """Raises JobUnfinished while there may be a result later, and other errors where there never
    will be one."""
    if not rows:
        raise ResultNotKept(id_)
    ((status, is_kept, result, error),) = rows
    match status:
        case "done":
            return decode(result)
        case "dead":
            raise JobFailed(id_, error)
        case "cancelled":
            raise JobCancelled(id_, error)
    raise JobUnfinished(id_, status) if is_kept else ResultNotKept(id_, status)


def decode(result: bytes | None) -> Any:
    """JSON; a handler may also return bytes, which are stored unchanged."""
    if result is None:
        return None
    try:
        return orjson.loads(result)
    except orjson.JSONDecodeError:
        return result
