"""The handlers at work: threads for `def`, tasks on one event loop for `async def`.

Both take single jobs off the same deque, which needs no lock, and wait only when it is empty; so
that handing a job over costs well below a microsecond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread
from typing import TYPE_CHECKING, Protocol

from milepost.queue.hand import has_lock
from milepost.queue.outcome import Ending, Kind

if TYPE_CHECKING:
    from milepost.queue.bell import Bell
    from milepost.queue.calls import AsyncCall, Call
    from milepost.queue.completions import Completions
    from milepost.queue.hand import Hand
    from milepost.records import TakenJob

# A handler that never waits would keep its loop from everything else.
JOBS_A_TURN = 64


class Crew(Protocol):
    def start(self) -> None: ...

    def wake(self, count: int) -> None:
        """So many jobs were added to the hand."""
        ...

    def close(self) -> None:
        """Returns when every handler has ended the job it is at."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What a crew works with. `bell` wakes whoever takes jobs."""

    name: str
    concurrency: int
    hand: Hand
    completions: Completions
    bell: Bell
    on_failure: Callable[[BaseException], None]


class Threads:
    def __init__(self, parts: Parts, make_call: Callable[[], Call]) -> None:
        self._make_call, self._parts = make_call, parts
        self._hand, self._bell, self._completions = parts.hand, parts.bell, parts.completions
        self._changed = Condition()
        self._is_closed = False
        self._threads = [
            Thread(target=self._run, name=f"{parts.name}-{number}", daemon=True)
            for number in range(parts.concurrency)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wake(self, count: int) -> None:
        with self._changed:
            self._changed.notify(count)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised by the worker, in its own thread
            self._parts.on_failure(error)

    def _work(self) -> None:
        call = self._make_call()
        waiting, hand = self._hand.waiting, self._hand
        while not self._is_closed:
            try:
                job = waiting.popleft()
            except IndexError:
                self._wait()
                continue
            if len(waiting) <= hand.low:
                self._bell.ring()
            if may_begin(job):
                call(job)
            else:
                put_aside(job, self._completions)
        call.close()

    def _wait(self) -> None:
        with self._changed:
            if not self._hand.waiting and not self._is_closed:
                self._changed.wait()


class Tasks:
    def __init__(self, parts: Parts, make_call: Callable[[], AsyncCall]) -> None:
        self._make_call, self._parts = make_call, parts
        self._hand, self._bell, self._completions = parts.hand, parts.bell, parts.completions
        self._is_closed = False
        self._since_turn = 0
        self._idle: list[asyncio.Future[None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name=f"{parts.name}-loop", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self, count: int) -> None:
        self._loop.call_soon_threadsafe(self._wake, count)

    def close(self) -> None:
        self._is_closed = True
        self.wake(self._parts.concurrency)
        self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._main())
        except BaseException as error:  # noqa: BLE001 - raised by the worker, in its own thread
            self._parts.on_failure(error)

    async def _main(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._parts.concurrency):
                group.create_task(self._work())

    def _wake(self, count: int) -> None:
        idle, self._idle = self._idle[:count], self._idle[count:]
        for future in idle:
            if not future.done():
                future.set_result(None)

    async def _work(self) -> None:
        call = self._make_call()
        waiting, hand = self._hand.waiting, self._hand
        while not self._is_closed:
            try:
                job = waiting.popleft()
            except IndexError:
                await self._wait()
                continue
            if len(waiting) <= hand.low:
                self._bell.ring()
            if may_begin(job):
                await call(job)
            else:
                put_aside(job, self._completions)
            self._since_turn += 1
            if self._since_turn >= JOBS_A_TURN:
                self._since_turn = 0
                await asyncio.sleep(0)
        await call.close()

    async def _wait(self) -> None:
        """Between the empty deque and this lies no await, so no wake can be missed on this loop:
        it comes after, and finds the future."""
        future = self._loop.create_future()
        self._idle.append(future)
        if self._hand.waiting or self._is_closed:
            self._idle.remove(future)
            return
        await future


def may_begin(job: TakenJob) -> bool:
    return has_lock(job) and not job.cancelled


def put_aside(job: TakenJob, completions: Completions) -> None:
    if job.cancelled and not job.lost:
        completions.ended(Ending(job, Kind.CANCEL))
    else:
        job.lost = True
        completions.settled(job)
