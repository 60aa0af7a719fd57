"""Calls batching handlers (`handle="batch"`): with a list of the jobs that wait, up to `batch`.

A list that fails as a whole may have one culprit. So a job that has failed before is handled alone,
and fails nobody else. With a transaction, all jobs of a list are settled in it. If one of them is
found to have lost its lock, it is rolled back, and the others are handled again without that one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from copy import copy
from typing import TYPE_CHECKING

from psycopg.rows import tuple_row

from milepost.errors import InvalidResult, JobTimedOut, JobTransactionEnded
from milepost.handlers import refuse_broken, refuse_unfinished
from milepost.queue.handlers.answers import endings_of
from milepost.queue.outcome import Ending, Kind
from milepost.queue.worker.begins import begins
from milepost.queue.worker.buffer import has_lock
from milepost.queue.worker.calling.coroutines import Coroutines, Slot
from milepost.queue.worker.calling.handler_pool import HandlerPool, may_begin, refuse_ended
from milepost.queue.worker.calling.job_transaction import (
    close_unused,
    close_unused_async,
    transaction,
    transaction_async,
)
from milepost.queue.worker.calling.threads import Threads
from milepost.queue.worker.calling.time_limits import Abandoned
from milepost.queue.worker.settle import log_failure
from milepost.records import Verdict
from milepost.runtime import Stopping

if TYPE_CHECKING:
    from milepost.db import AsyncConnection, Connection
    from milepost.queue.definition import Definition
    from milepost.records import TakenJob
    from milepost.runtime import AsyncLease, Lease


class LocksLost(Exception):
    """The locks of some jobs of a list: the transaction is rolled back."""

    def __init__(self, jobs: Sequence[TakenJob]) -> None:
        self.jobs = jobs
        super().__init__(f"jobs {[job.id for job in jobs]}")


class Batching(HandlerPool):
    """What both colours share."""

    def _lists(self, first: TakenJob) -> Generator[list[TakenJob], None, None]:
        """The first job and those that wait, up to `batch`: one list, and alone each job that has
        failed before."""
        fresh: list[TakenJob] = []
        failed: list[TakenJob] = []
        job: TakenJob | None = first
        while job is not None:
            (failed if job.failures else fresh).append(job)
            is_full = len(fresh) + len(failed) >= self._options.batch
            job = None if is_full else self._next()
        try:
            if fresh:
                yield from self._counted(fresh)
            while failed:
                yield from self._alone(failed.pop(0))
        finally:  # closed early: the thread was abandoned
            for each in failed:
                self._settler.ended(Ending(each, Kind.GIVE_BACK))

    def _alone(self, job: TakenJob) -> Iterator[list[TakenJob]]:
        """It has waited for those before it, so that it is asked again whether it may begin."""
        if self._is_closed:
            self._settler.ended(Ending(job, Kind.GIVE_BACK))
        elif may_begin(job):
            yield from self._counted([job])
        else:
            self._put_aside(job)

    def _counted(self, jobs: list[TakenJob]) -> Iterator[list[TakenJob]]:
        """While it is handled, or until its thread is abandoned."""
        first, lists = jobs[0], self._buffer.lists
        lists.add(first)
        try:
            yield jobs
        finally:
            lists.discard(first)

    def _endings(self, jobs: Sequence[TakenJob], answer: object) -> list[Ending]:
        return endings_of(jobs, answer, self._ending_of_error)

    def _answered(self, endings: Iterable[Ending]) -> None:
        for ending in endings:
            if ending.kind is Kind.COMPLETE and ending.result is None:
                self._settler.done(ending.job)
            else:
                self._settler.ended(ending)

    def _all_failed(self, jobs: Sequence[TakenJob], error: BaseException) -> None:
        for job in jobs:
            self._failed(job, error_of(job, error))

    @contextmanager
    def _settling_all(self, jobs: list[TakenJob]) -> Iterator[list[Ending]]:
        """Around the transaction of a list, which settles it by itself unless it fails. The list
        then holds those that are still to be handled: those whose neighbours have lost their
        locks."""
        settled: list[Ending] = []
        handled = list(jobs)
        jobs.clear()
        try:
            yield settled
        except Abandoned:
            raise
        except Stopping:
            for job in handled:
                self._settler.ended(Ending(job, Kind.GIVE_BACK))
        except LocksLost as lost:
            for job in lost.jobs:
                job.lost = True
                self._settler.settled(job)
            jobs.extend(job for job in handled if not job.lost)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its failure
            # If the answer to a commit was lost, the fence lets the failures change nothing.
            self._all_failed(handled, error)
        else:
            for ending in settled:
                if ending.kind is Kind.FAIL:
                    log_failure(ending, self._shared.repeats)
                self._settler.settled(ending.job)


class BatchThreads(Threads, Batching):
    def _call(self, job: TakenJob) -> None:
        with closing(self._lists(job)) as lists:
            for jobs in lists:
                self._call_list(jobs)

    _call_limited = _call

    def _call_list(self, jobs: list[TakenJob]) -> None:
        try:
            with self._limited(jobs):
                begin_all(jobs)
                answer = self._handler(jobs)
            refuse_unfinished(answer)
            endings = self._endings(jobs, answer)
        except Abandoned:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its failure
            self._all_failed(jobs, error)
        else:
            self._answered(endings)

    def _call_next_in_transaction(self, lease: Lease) -> None:
        """The first list gets the transaction that was opened before any job was taken off."""
        stack = ExitStack()
        conn: Connection | None = lease.run(
            lambda conn: stack.enter_context(transaction(lease, conn, self._options.session))
        )
        try:
            if (job := self._next()) is None:  # another thread was quicker
                return
            with closing(self._lists(job)) as lists:
                for jobs in lists:
                    while jobs:
                        self._transact(lease, jobs, stack, conn)
                        stack, conn = ExitStack(), None
        finally:
            close_unused(stack)

    def _transact(
        self, lease: Lease, jobs: list[TakenJob], stack: ExitStack, conn: Connection | None
    ) -> None:
        given = list(jobs)
        with self._settling_all(jobs) as settled, stack:
            tx = conn or lease.run(
                lambda new: stack.enter_context(transaction(lease, new, self._options.session))
            )
            with calling_all(given, tx), self._limited(given, lease):
                begin_all(given)
                answer = self._handler(given, tx)
                refuse_unfinished(answer)
            endings = self._endings(given, answer)
            refuse_any_lost(self._settled(lease, tx, endings))
            settled.extend(endings)


class BatchCoroutines(Coroutines, Batching):
    def cancel(self, job: TakenJob) -> None:
        """The handler may look at `job.cancelled`. It is not interrupted for one job of many."""

    async def _call_next(self, slot: Slot) -> bool:
        if (job := self._next()) is not None:
            for jobs in self._lists(job):
                await self._call_list(slot, jobs)
        return True

    _call_next_limited = _call_next

    async def _call_list(self, slot: Slot, jobs: list[TakenJob]) -> None:
        try:
            begin_all(jobs)
            endings = self._endings(jobs, await self._handle(slot, jobs[0], jobs))
        except BaseException as error:  # noqa: BLE001 - also a cancellation of its own making
            self._all_failed(jobs, error)
        else:
            self._answered(endings)

    async def _call_next_in_transaction(self, slot: Slot, lease: AsyncLease) -> bool:
        """The first list gets the transaction that was opened before any job was taken off."""
        stack = AsyncExitStack()
        try:
            conn: AsyncConnection | None = await lease.run(
                lambda conn: stack.enter_async_context(transaction_async(lease, conn))
            )
        except Stopping:  # what waits is given back
            return False
        try:
            if (job := self._next()) is None:
                return True
            for jobs in self._lists(job):
                while jobs:
                    await self._transact(slot, lease, jobs, stack, conn)
                    stack, conn = AsyncExitStack(), None
        finally:
            await close_unused_async(stack)
        return True

    async def _transact(
        self,
        slot: Slot,
        lease: AsyncLease,
        jobs: list[TakenJob],
        stack: AsyncExitStack,
        conn: AsyncConnection | None,
    ) -> None:
        given = list(jobs)
        with self._settling_all(jobs) as settled:
            async with stack:
                tx = conn
                if tx is None:
                    tx = await lease.run(
                        lambda new: stack.enter_async_context(transaction_async(lease, new))
                    )
                with calling_all(given, tx):
                    begin_all(given)
                    answer = await self._handle(slot, given[0], given, tx)
                endings = self._endings(given, answer)
                refuse_any_lost(await self._settled(lease, tx, endings))
                settled.extend(endings)


def begin_all(jobs: Sequence[TakenJob]) -> None:
    for job in jobs:
        if job.begin_rules:
            begins(job)


def error_of(job: TakenJob, error: BaseException) -> BaseException:
    """The error of a list, as that of one of its jobs."""
    if not isinstance(error, JobTransactionEnded | JobTimedOut | InvalidResult):
        return error
    own = copy(error)
    own.job = job.id
    return own


@contextmanager
def calling_all(jobs: Sequence[TakenJob], conn: Connection | AsyncConnection) -> Iterator[None]:
    """Around the call of a batching handler with a transaction: no job is given to it whose lock
    may have expired, as after a long wait for the server."""
    if lost := [job for job in jobs if not has_lock(job)]:
        raise LocksLost(lost)
    try:
        yield
        refuse_broken(conn)
    except Exception as error:
        refuse_ended(jobs[0], conn, error)
        raise
    finally:
        conn.row_factory = tuple_row  # a handler may set it for itself


def refuse_any_lost(settled: Iterable[tuple[Ending, Verdict]]) -> None:
    if lost := [ending.job for ending, verdict in settled if verdict is not Verdict.DONE]:
        raise LocksLost(lost)


def pool_of(definition: Definition) -> type[Threads | Coroutines]:
    if definition.options.handle == "batch":
        return BatchCoroutines if definition.is_async else BatchThreads
    return Coroutines if definition.is_async else Threads
