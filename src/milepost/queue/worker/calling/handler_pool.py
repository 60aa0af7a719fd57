"""Calls the handlers: `def` in threads (threads.py), `async def` on an event loop (coroutines.py).

Both take single jobs off the same deque, which needs no lock, and wait only when it is empty. So
passing a job on takes well below a microsecond.

A handler with a transaction settles its job in that transaction, fenced: its effects exist exactly
if the job is completed by them. All other attempts are settled later, in batches. The transaction
is opened before a job is taken off the deque: a job that waits for a connection has not begun. A
connection that is lost while the handler runs is a failure, because the handler may have ended it.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from milepost.errors import ConnectionUnusable, JobTransactionEnded, NotPermitted, describe
from milepost.handlers import refuse_broken
from milepost.queue.outcome import Ending, Kind, ending_of_error, ending_of_return
from milepost.queue.worker.buffer import has_lock
from milepost.queue.worker.calling.time_limits import Abandoned
from milepost.records import BEGIN_AWAITED, Verdict

if TYPE_CHECKING:
    from milepost.db import AsyncConnection, Connection
    from milepost.queue.worker.settle import Settler
    from milepost.queue.worker.shared import Shared
    from milepost.records import TakenJob


class LockLost(Exception):
    """Another worker has the job by now, or it ended: the handler's transaction is rolled back."""


class HandlerPool(ABC):
    def __init__(self, shared: Shared, settler: Settler) -> None:
        self._shared, self._settler = shared, settler
        self._options, self._buffer = shared.options, shared.buffer
        self._handler = shared.handler or shared.definition.handler
        self._calls = shared.definition.calls
        own = () if self._options.timeout is None else (self._options.timeout,)
        self._timeouts = (*own, *self._calls.timeouts)
        self._is_closed = False

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def wake(self, count: int) -> None:
        """So many jobs were added to the buffer."""

    @abstractmethod
    def cancel(self, job: TakenJob) -> None:
        """The job was asked to stop. `job.cancelled` says so; more can be done where a handler can
        be interrupted."""

    @abstractmethod
    def close(self) -> None:
        """Returns when all handlers have finished the jobs that they have begun."""

    def _thread(self, name: str) -> Thread:
        return Thread(target=self._run_or_fail, name=f"{self._shared.channel}-{name}", daemon=True)

    def _run_or_fail(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - raised by the worker, in its own thread
            self._shared.fail(error)

    @abstractmethod
    def _run(self) -> None: ...

    def _next(self) -> TakenJob | None:
        """The next job that waits, if it may begin."""
        waiting = self._buffer.waiting
        while True:
            try:
                job = waiting.popleft()
            except IndexError:
                return None
            if len(waiting) <= self._buffer.low:
                self._shared.bell.ring()
            if may_begin(job):
                return job
            self._put_aside(job)

    def _timeout_of(self, job: TakenJob) -> float | None:
        return self._calls.timeout_of(job, self._options.timeout)

    def _put_aside(self, job: TakenJob) -> None:
        if job.cancelled and not job.lost:
            self._settler.ended(Ending(job, Kind.CANCEL))
        else:
            job.lost = True
            self._settler.settled(job)

    def _returned(self, job: TakenJob, result: object) -> None:
        if result is None:
            self._settler.done(job)
        else:
            self._settler.ended(ending_of_return(job, result))

    def _failed(self, job: TakenJob, error: BaseException) -> None:
        self._settler.ended(self._ending_of_error(job, error))

    def _ending_of_error(self, job: TakenJob, error: BaseException) -> Ending:
        chance = random.random()  # noqa: S311 - no secret
        policy = self._calls.retry_of(job, self._options.retry)
        return ending_of_error(job, error, policy, chance)

    @contextmanager
    def _settling(self, job: TakenJob) -> Iterator[None]:
        """Around the transaction of a job, which settles it by itself unless it fails."""
        try:
            yield
        except Abandoned:
            raise
        except LockLost:
            self._settler.settled(job)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its failure
            # If the answer to a commit was lost, the fence lets the failure change nothing.
            self._failed(job, error)
        else:
            self._settler.settled(job)


@contextmanager
def calling(job: TakenJob, conn: Connection | AsyncConnection) -> Iterator[None]:
    """Around the call of a handler with a transaction."""
    try:
        yield
        refuse_broken(conn)
    except Exception as error:
        refuse_ended(job, conn, error)
        raise
    finally:
        conn.row_factory = tuple_row  # a handler may set it for itself


def must_tell_begin(job: TakenJob) -> bool:
    """Whether a channel waits for the begin of the job. It must be told before the job is settled,
    in the same transaction."""
    return bool(job.begin_rules & BEGIN_AWAITED) and not job.is_begin_told


@contextmanager
def refusing_role(job: TakenJob) -> Iterator[None]:
    """Around the statement that settles a job in the handler's transaction. It resets the role of
    the session, but must first be permitted to run."""
    try:
        yield
    except NotPermitted as error:
        raise ConnectionUnusable(
            f"Job {job.id} cannot be completed with the role that its handler left: {error.what}. "
            "Its transaction is rolled back. Reset the role in the handler, with RESET ROLE or "
            "RESET SESSION AUTHORIZATION, before it returns."
        ) from error


def may_begin(job: TakenJob) -> bool:
    return has_lock(job) and not job.cancelled


def refuse_ended(job: TakenJob, conn: Connection | AsyncConnection, error: Exception) -> None:
    """A failure undoes nothing of what the handler has committed by itself, so another attempt
    would do it twice."""
    if not conn.closed and conn.info.transaction_status == TransactionStatus.IDLE:
        raise JobTransactionEnded(job.id, describe(error)) from error


def refuse_lost(job: TakenJob, verdict: Verdict) -> None:
    if verdict is not Verdict.DONE:
        raise LockLost(f"job {job.id}, attempt {job.attempt}: {verdict}")
