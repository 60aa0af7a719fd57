"""Runs `def` handlers, each in a thread.

A thread cannot be interrupted. If the handler has a `timeout` and is still running then, its job
fails, the connection of its transaction is broken from outside, and the thread is abandoned:
another one takes its place. What the handler does afterwards with its job or its transaction has no
effect.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from threading import Condition
from typing import TYPE_CHECKING

from milepost.errors import JobTimedOut, TooManyAbandoned
from milepost.handlers import refuse_unfinished
from milepost.queue import verbs
from milepost.queue.outcome import ending_of_return
from milepost.queue.worker.begins import begins
from milepost.queue.worker.calling.handler_pool import (
    HandlerPool,
    calling,
    must_tell_begin,
    refuse_lost,
    refusing_role,
)
from milepost.queue.worker.calling.job_transaction import close_unused, transaction
from milepost.queue.worker.calling.time_limits import Abandoned, Call, TimeLimits
from milepost.runtime import Stopping

if TYPE_CHECKING:
    from threading import Thread

    from milepost.db import Connection
    from milepost.queue.outcome import Ending
    from milepost.queue.worker.settle import Settler
    from milepost.queue.worker.shared import Shared
    from milepost.records import TakenJob, Verdict
    from milepost.runtime import Lease

LEAST_ABANDONED = 10
log = logging.getLogger("milepost.queue")


class Threads(HandlerPool):
    def __init__(self, shared: Shared, settler: Settler) -> None:
        super().__init__(shared, settler)
        self._changed = Condition()
        self._threads: list[Thread] = []
        self._limits: TimeLimits | None = None
        if self._timeouts:
            shortest = min(self._timeouts)
            self._limits = TimeLimits(shared.channel, shortest, self._give_up, shared.fail)

    def start(self) -> None:
        for number in range(self._shared.concurrency):
            self._start_thread(str(number))
        if self._limits is not None:
            self._limits.start()

    def wake(self, count: int) -> None:
        with self._changed:
            self._changed.notify(count)

    def cancel(self, job: TakenJob) -> None:
        """The handler may look at `job.cancelled`."""

    def close(self) -> None:
        self._is_closed = True
        with self._changed:
            self._changed.notify_all()
        # An abandoned thread leaves the list, and its successor may have joined it.
        while threads := [thread for thread in list(self._threads) if thread.is_alive()]:
            threads[0].join(0.05)
        if self._limits is not None:
            self._limits.close()

    def _give_up(self, call: Call, abandoned: int) -> None:
        """The time of its jobs is up: the handler has no say any more."""
        self._buffer.lists.difference_update(call.jobs)
        for job in call.jobs:
            job.lost = True
            self._failed(job, JobTimedOut(job.id, call.seconds))
            log.error(
                "job=%s channel=%s attempt=%s timed out: its thread is abandoned, as %s others",
                job.id,
                job.channel,
                job.attempt,
                abandoned - 1,
            )
        if call.lease is not None:
            call.lease.abandon()
        self._replace(call.thread, abandoned)

    def _replace(self, thread: Thread, abandoned: int) -> None:
        self._threads.remove(thread)
        if abandoned > (most := max(LEAST_ABANDONED, self._shared.concurrency)):
            self._shared.fail(TooManyAbandoned(self._shared.channel, abandoned, most))
        elif not self._is_closed:
            self._start_thread("replacement")

    def _start_thread(self, name: str) -> None:
        thread = self._thread(name)
        self._threads.append(thread)
        thread.start()

    def _run(self) -> None:
        try:
            if not self._shared.definition.is_transactional:
                self._work()
                return
            with closing(self._shared.lease()) as lease:
                self._work_in_transactions(lease)
        except Abandoned:
            log.warning("worker=%s: an abandoned handler has ended", self._shared.channel)

    def _work(self) -> None:
        call = self._call if self._limits is None else self._call_limited
        while not self._is_closed:
            if (job := self._next()) is not None:
                call(job)
            else:
                self._wait()

    def _wait(self) -> None:
        with self._changed:
            if not self._buffer.waiting and not self._is_closed:
                self._changed.wait()

    def _call(self, job: TakenJob) -> None:
        try:
            if job.begin_rules:
                begins(job)
            result = self._handler(job)
            if result is not None:
                refuse_unfinished(result)
            self._returned(job, result)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its failure
            self._failed(job, error)

    def _call_limited(self, job: TakenJob) -> None:
        try:
            with self._limited([job]):
                if job.begin_rules:
                    begins(job)
                result = self._handler(job)
            refuse_unfinished(result)
            self._returned(job, result)
        except Abandoned:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its failure
            self._failed(job, error)

    def _work_in_transactions(self, lease: Lease) -> None:
        while not self._is_closed:
            if not self._buffer.waiting:
                self._wait()
                continue
            try:
                self._call_next_in_transaction(lease)
            except Stopping:  # while it waited for a connection; what waits is given back
                return

    def _call_next_in_transaction(self, lease: Lease) -> None:
        stack = ExitStack()
        conn = lease.run(
            lambda conn: stack.enter_context(transaction(lease, conn, self._options.session))
        )
        if (job := self._next()) is None:  # another thread was quicker
            close_unused(stack)
            return
        if not self._calls.takes_tx(job):  # a task that needs none, beside others that do
            close_unused(stack)
            self._call_limited(job)
            return
        with self._settling(job), stack:
            with calling(job, conn), self._limited([job], lease):
                if job.begin_rules:
                    begins(job)
                result = self._handler(job, conn)
                refuse_unfinished(result)
            ending = ending_of_return(job, result)
            for _, verdict in self._settled(lease, conn, [ending]):
                refuse_lost(job, verdict)

    def _settled(
        self, lease: Lease, conn: Connection, endings: Sequence[Ending]
    ) -> list[tuple[Ending, Verdict]]:
        """In the transaction of the handler, which has returned."""
        jobs, schema = [ending.job for ending in endings], self._shared.schema
        if untold := [job for job in jobs if must_tell_begin(job)]:
            verbs.mark_begun(conn, untold, schema=schema)
        reset = lease.reset_for(conn)
        with refusing_role(jobs[0]):
            return list(verbs.settle(conn, endings, schema, reset))

    @contextmanager
    def _limited(self, jobs: Sequence[TakenJob], lease: Lease | None = None) -> Iterator[None]:
        limits = self._limits
        if limits is None or (seconds := self._timeout_of(jobs[0])) is None:
            yield
            return
        with limits.limit(jobs, lease, seconds):
            yield
