"""Jobs that do not simply begin when a handler is free.

A last attempt is marked in the database before its handler is called, so that no job begins more
often than its `max_attempts`. A suspect, whose last attempts ended with their locks, runs alone in
its process: if it kills the process, it takes no other job with it. Both wait in the gate. Where a
channel has a `release_interval`, the begin is reported right after it: the channel waits for that
(mark_begun.sql).
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice, takewhile
from threading import Lock
from typing import TYPE_CHECKING

from milepost.queue import verbs
from milepost.queue.outcome import Ending, Kind
from milepost.records import BEGIN_AWAITED, LAST_ATTEMPT, SUSPECT, Verdict

if TYPE_CHECKING:
    from milepost.queue.worker.calling.handler_pool import HandlerPool
    from milepost.queue.worker.settle import Settler
    from milepost.queue.worker.shared import Shared
    from milepost.records import TakenJob
    from milepost.runtime import Bell, Lease, Runtime

# How often is looked whether an awaited job has begun. Nobody rings for it: that would give other
# threads the interpreter, just before the handler is called.
FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.001, 0.05
# A suspect waits for one lock time until it can be alone, and then comes back after so many.
POSTPONED_LOCKS = 10


class Alone:
    """Lets one worker of a process run a job while all its other workers hold none:
    `runtime.part(Alone)`."""

    def __init__(self, _runtime: Runtime) -> None:
        self._lock = Lock()
        self._bells: dict[object, Bell] = {}
        self._quiet: set[object] = set()
        self._holder: object | None = None

    def join(self, worker: object, bell: Bell) -> None:
        with self._lock:
            self._bells[worker] = bell

    def leave(self, worker: object) -> None:
        with self._lock:
            del self._bells[worker]
            self._quiet.discard(worker)
            if self._holder is worker:
                self._holder = None
                self._quiet.clear()
            self._ring_all()

    def may_take(self, worker: object, *, is_quiet: bool) -> bool:
        """Asked by a worker before each take. While another one is to be alone it must not take;
        once it holds nothing that runs it is quiet."""
        if self._holder is None or self._holder is worker:  # `_quiet` is cleared before
            return True
        with self._lock:
            if is_quiet and self._holder is not None and worker not in self._quiet:
                self._quiet.add(worker)
                self._bells[self._holder].ring()
        return False

    def is_granted(self, worker: object) -> bool:
        """Whether the worker may run its job now. It asks again when its bell rings."""
        with self._lock:
            if self._holder is None:
                self._holder = worker
                self._ring_all()
            others = self._bells.keys() - {worker}
            return self._holder is worker and others <= self._quiet

    def end(self, worker: object) -> None:
        with self._lock:
            if self._holder is worker:
                self._quiet.clear()
                self._holder = None
                self._ring_all()

    def _ring_all(self) -> None:
        for bell in self._bells.values():
            bell.ring()


class Gate:
    """Used by the thread that takes jobs. While anything waits here nothing more is taken: so the
    jobs that wait for a handler become fewer, and it is the turn of these."""

    def __init__(self, shared: Shared, lease: Lease, settler: Settler, pool: HandlerPool) -> None:
        self._shared, self._lease, self._buffer = shared, lease, shared.buffer
        self._settler, self._pool = settler, pool
        self._alone = shared.runtime.part(Alone)
        self._alone.join(self, shared.bell)
        self._suspect: TakenJob | None = None
        self._is_suspect_begun = False
        self._suspect_since = 0.0

    def admit(self, jobs: list[TakenJob]) -> None:
        """They were taken: nearly all may begin."""
        self._buffer.add(jobs)
        free = [job for job in jobs if not job.begin_rules]
        if len(free) < len(jobs):
            self._admit_others([job for job in jobs if job.begin_rules])
        self._buffer.waiting.extend(free)
        self._pool.wake(len(free))

    @property
    def has_suspect(self) -> bool:
        """Whether one waits to be alone, or runs alone."""
        return self._suspect is not None

    def may_take(self, free: int) -> bool:
        """Lets pass what may, if so many handlers are free; whether nothing waits here then."""
        gated = self._buffer.gated
        if self._suspect is None and gated and gated[0].begin_rules & SUSPECT:
            self._suspect, self._is_suspect_begun = gated[0], False
            self._suspect_since = time.monotonic()
        if self._suspect is not None:
            self._advance(self._suspect)
        elif gated and free > 0:
            certain = takewhile(lambda job: not job.begin_rules & SUSPECT, list(gated))
            self._pass(list(islice(certain, free)))
        is_empty = self._suspect is None and not gated
        return self._alone.may_take(self, is_quiet=self._is_quiet()) and is_empty

    def close(self) -> None:
        self._alone.leave(self)

    def _admit_others(self, jobs: list[TakenJob]) -> None:
        for job in jobs:
            if job.begin_rules & (LAST_ATTEMPT | SUSPECT):
                self._buffer.gated.append(job)
            else:
                self._begin(job)

    def _is_quiet(self) -> bool:
        """Whether all jobs that it holds wait here."""
        return len(self._buffer) == len(self._buffer.gated)

    def _advance(self, suspect: TakenJob) -> None:
        if not self._buffer.holds(suspect):  # it has ended
            self._suspect = None
            self._alone.end(self)
        elif self._is_suspect_begun:
            return
        elif self._alone.is_granted(self) and self._is_quiet():
            self._is_suspect_begun = True
            self._pass([suspect])
        elif time.monotonic() > self._suspect_since + self._shared.options.lock:
            self._postpone(suspect)

    def _postpone(self, suspect: TakenJob) -> None:
        """Some handler of the process runs for long, and nothing else is taken meanwhile. Another
        process may be free sooner; and this one works most of the time."""
        delay = timedelta(seconds=POSTPONED_LOCKS * self._shared.options.lock)
        self._buffer.gated.remove(suspect)
        self._settler.ended(Ending(suspect, Kind.GIVE_BACK, delay=delay))
        self._suspect = None
        self._alone.end(self)

    def _pass(self, jobs: list[TakenJob]) -> None:
        """Marked durably, and only then passed on. As many as handlers are free: a crash counts
        what is marked as begun."""
        schema = self._shared.schema
        verdicts = self._lease.run(lambda conn: verbs.mark_begun(conn, jobs, schema=schema))
        for job, verdict in zip(jobs, verdicts, strict=True):
            job.is_begin_told = not job.begin_rules & BEGIN_AWAITED
            job.cancelled = job.cancelled or verdict is Verdict.CANCELLED
            job.lost = job.lost or verdict in (Verdict.STALE, Verdict.GONE)
            self._begin(job)  # a lost one is put aside by the handlers
            self._buffer.gated.remove(job)

    def _begin(self, job: TakenJob) -> None:
        """First of all that wait, if its channel waits for it."""
        if job.begin_rules & BEGIN_AWAITED:
            self._settler.expect_begin(job)  # before a handler can end it
            self._buffer.waiting.appendleft(job)
        else:
            self._buffer.waiting.append(job)
        self._pool.wake(1)


@dataclass(slots=True)
class Begins:
    """Reports the begins that channels wait for. Used by the thread that settles jobs, before it
    settles any: a job that has ended must have begun."""

    shared: Shared
    _expected: deque[TakenJob] = field(default_factory=deque, init=False)
    _look_seconds: float = field(default=FIRST_LOOK_SECONDS, init=False)

    def expect(self, job: TakenJob) -> None:
        self._look_seconds = FIRST_LOOK_SECONDS
        self._expected.append(job)

    def look_seconds(self, longest: float) -> float:
        """How long to wait before the next look."""
        if not self._expected:
            return longest
        seconds, self._look_seconds = (
            self._look_seconds,
            min(2 * self._look_seconds, LONGEST_LOOK_SECONDS),
        )
        return seconds

    def report(self, lease: Lease) -> None:
        if begun := self._begun():
            schema = self.shared.schema
            lease.run(lambda conn: verbs.mark_begun(conn, begun, schema=schema))
            for job in begun:
                job.is_begin_told = True
            self.shared.bell.ring()  # the time of the channel's next release is known now

    def _begun(self) -> list[TakenJob]:
        begun: list[TakenJob] = []
        for _ in range(len(self._expected)):
            job = self._expected.popleft()
            if job.begun_at is not None:
                if not job.is_begin_told:  # a handler's own transaction may have reported it
                    begun.append(job)
            elif self.shared.buffer.holds(job):
                self._expected.append(job)
        return begun


def begins(job: TakenJob) -> None:
    """Called just before a handler, if the job has rules. The server counts from the report, which
    is sent later: so the real begin is not later than the one that is reported."""
    job.begun_at = time.monotonic()
