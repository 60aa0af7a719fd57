"""Runs `async def` handlers, in tasks of one event loop.

A task can be interrupted: when the job is cancelled, and when its time is up. The handler gets a
CancelledError at its next await, and may clean up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

from milepost.errors import JobTimedOut, describe
from milepost.queue import verbs
from milepost.queue.outcome import Cancel, ending_of_return
from milepost.queue.worker.begins import begins
from milepost.queue.worker.calling.handler_pool import (
    HandlerPool,
    calling,
    must_tell_begin,
    refuse_lost,
    refusing_role,
)
from milepost.queue.worker.calling.job_transaction import close_unused_async, transaction_async
from milepost.runtime import Stopping

if TYPE_CHECKING:
    from milepost.db import AsyncConnection
    from milepost.queue.outcome import Ending
    from milepost.queue.worker.settle import Settler
    from milepost.queue.worker.shared import Shared
    from milepost.records import TakenJob, Verdict
    from milepost.runtime import AsyncLease

# A handler that never waits would keep its event loop from everything else.
JOBS_A_TURN = 64
log = logging.getLogger("milepost.queue")


@dataclass(slots=True, eq=False)
class Slot:
    """A task that calls handlers, one after another. `job` is set exactly while a handler runs in
    it: only then is the task interrupted."""

    task: asyncio.Task[Any]
    job: TakenJob | None = field(default=None, init=False)
    reason: Exception | None = field(default=None, init=False)  # of an interruption
    _interruptions: int = field(default=0, init=False)

    def interrupt(self, reason: Exception) -> None:
        self.reason = reason
        self._interruptions += 1
        self.task.cancel()

    def ended(self, job: TakenJob) -> None:
        """The handler returned. If it was interrupted it went on as if nothing had happened: that
        is said in the log, and what it returned counts."""
        self.job = None
        if self.reason is not None:
            log.warning("job=%s: its handler went on though %s", job.id, describe(self.reason))
            self._go_on()

    def raised(self, error: BaseException) -> BaseException:
        """What a handler that raised this ended with: why it was interrupted, if it was."""
        self.job = None
        if (reason := self.reason) is None:
            return error
        self._go_on()
        if not isinstance(error, asyncio.CancelledError):
            reason.__cause__ = error
        return reason

    def _go_on(self) -> None:
        """The task calls the next handler, which is not cancelled."""
        self.reason = None
        while self._interruptions:
            self._interruptions -= 1
            self.task.uncancel()


class Coroutines(HandlerPool):
    def __init__(self, shared: Shared, settler: Settler) -> None:
        super().__init__(shared, settler)
        self._since_turn = 0
        self._idle: list[asyncio.Future[None]] = []
        self._slots: list[Slot] = []
        self._loop = asyncio.new_event_loop()
        self._loop_thread = self._thread("loop")
        self._is_ready = Event()

    def start(self) -> None:
        """Returns when the resources of the handler are open, or could not be opened."""
        self._loop_thread.start()
        self._is_ready.wait()

    def wake(self, count: int) -> None:
        with suppress(RuntimeError):  # after a failure the loop is closed, and nobody waits
            self._loop.call_soon_threadsafe(self._wake, count)

    def cancel(self, job: TakenJob) -> None:
        with suppress(RuntimeError):  # the loop is closed: its handlers have ended
            self._loop.call_soon_threadsafe(self._cancel, job)

    def close(self) -> None:
        self._is_closed = True
        self.wake(self._shared.concurrency)
        self._loop_thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._main())

    def _run_or_fail(self) -> None:
        try:
            super()._run_or_fail()
        finally:
            self._is_ready.set()

    async def _main(self) -> None:
        async with AsyncExitStack() as stack:
            self._handler = await self._shared.definition.open_async(stack)
            self._is_ready.set()
            async with asyncio.TaskGroup() as group:
                for _ in range(self._shared.concurrency):
                    group.create_task(self._run_task())

    def _wake(self, count: int) -> None:
        idle, self._idle = self._idle[:count], self._idle[count:]
        for future in idle:
            if not future.done():
                future.set_result(None)

    def _cancel(self, job: TakenJob) -> None:
        for slot in self._slots:
            if slot.job is job:
                slot.interrupt(Cancel("it was cancelled while it ran"))

    async def _run_task(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - inside a coroutine of one
        slot = Slot(task)
        self._slots.append(slot)
        if not self._shared.definition.is_transactional:
            call_next = self._call_next_limited if self._timeouts else self._call_next
            await self._work(partial(call_next, slot))
            return
        with closing(self._shared.async_lease()) as lease:
            await self._work(partial(self._call_next_in_transaction, slot, lease))

    async def _work(self, call_next: Callable[[], Awaitable[bool]]) -> None:
        while not self._is_closed:
            if not self._buffer.waiting:
                await self._wait()
                continue
            if not await call_next():
                return
            self._since_turn += 1
            if self._since_turn >= JOBS_A_TURN:
                self._since_turn = 0
                await asyncio.sleep(0)

    async def _wait(self) -> None:
        """No wake is missed: there is no await between the look at the deque and that for the
        future, and a wake comes through the same event loop, so that it finds the future."""
        if not self._buffer.waiting and not self._is_closed:
            future = self._loop.create_future()
            self._idle.append(future)
            await future

    async def _call_next(self, slot: Slot) -> bool:
        """The shortest way, for most handlers: each call of a coroutine costs something."""
        if (job := self._next()) is None:
            return True
        try:
            if job.begin_rules:
                begins(job)
            slot.job = job
            result = await self._handler(job)
            slot.ended(job)
            self._returned(job, result)
        except BaseException as error:  # noqa: BLE001 - also a cancellation of its own making
            self._failed(job, slot.raised(error))
        return True

    async def _call_next_limited(self, slot: Slot) -> bool:
        if (job := self._next()) is not None:
            await self._call_limited(slot, job)
        return True

    async def _call_limited(self, slot: Slot, job: TakenJob) -> None:
        try:
            self._returned(job, await self._handle(slot, job, job))
        except BaseException as error:  # noqa: BLE001 - also a cancellation of its own making
            self._failed(job, error)

    async def _call_next_in_transaction(self, slot: Slot, lease: AsyncLease) -> bool:
        """False: a stop was requested while it waited for the server."""
        stack = AsyncExitStack()
        try:
            conn = await lease.run(
                lambda conn: stack.enter_async_context(transaction_async(lease, conn))
            )
        except Stopping:  # what waits is given back
            return False
        if (job := self._next()) is None:
            await close_unused_async(stack)
            return True
        if not self._calls.takes_tx(job):  # a task that needs none, beside others that do
            await close_unused_async(stack)
            await self._call_limited(slot, job)
            return True
        with self._settling(job):
            async with stack:
                await self._handle_in_transaction(slot, job, lease, conn)
        return True

    async def _handle_in_transaction(
        self, slot: Slot, job: TakenJob, lease: AsyncLease, conn: AsyncConnection
    ) -> None:
        with calling(job, conn):
            result = await self._handle(slot, job, job, conn)
        for _, verdict in await self._settled(lease, conn, [ending_of_return(job, result)]):
            refuse_lost(job, verdict)

    async def _settled(
        self, lease: AsyncLease, conn: AsyncConnection, endings: Sequence[Ending]
    ) -> list[tuple[Ending, Verdict]]:
        """In the transaction of the handler, which has returned."""
        jobs, schema = [ending.job for ending in endings], self._shared.schema
        if untold := [job for job in jobs if must_tell_begin(job)]:
            await verbs.mark_begun_async(conn, untold, schema)
        reset = lease.reset_for(conn)
        with refusing_role(jobs[0]):
            return await verbs.settle_async(conn, endings, schema, reset)

    async def _handle(self, slot: Slot, job: TakenJob, *given: Any) -> object:
        """Call the handler with what it is given: the job, or a list that begins with it."""
        timer = None
        if (seconds := self._timeout_of(job)) is not None:
            timer = self._loop.call_later(seconds, self._time_is_up, slot, job, seconds)
        if job.begin_rules:
            begins(job)
        slot.job = job
        try:
            result = await self._handler(*given)
            slot.ended(job)
        except BaseException as error:  # noqa: BLE001 - also a cancellation of its own making
            raise slot.raised(error)  # noqa: B904 - it has its cause
        finally:
            if timer is not None:
                timer.cancel()
        return result

    def _time_is_up(self, slot: Slot, job: TakenJob, seconds: float) -> None:
        """Again and again, while the handler goes on."""
        if slot.job is not job:
            return
        if slot.reason is not None:
            log.warning("job=%s: its handler goes on though its time is up", job.id)
        slot.interrupt(JobTimedOut(job.id, seconds))
        self._loop.call_later(max(1.0, seconds), self._time_is_up, slot, job, seconds)
