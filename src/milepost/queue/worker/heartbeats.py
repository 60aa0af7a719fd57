"""Extends the locks of all held jobs, from its own thread and on its own connection.

No handler can delay it. A handler learns here that its job was lost, or is to stop. The server
learns here which jobs have begun: of those that a handler still has at the next look, because most
are done before.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from milepost.queue import verbs
from milepost.records import Verdict
from milepost.runtime import Bell, Duty, Stopping

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.queue.worker.shared import Shared
    from milepost.records import TakenJob

BEATS_PER_LOCK = 3
LOOK_SECONDS = 1.0  # between two looks for progress, begins and jobs that were cancelled
log = logging.getLogger("milepost.queue")


class Heartbeats:
    """`on_cancel` is called with each running job that was asked to stop."""

    def __init__(self, shared: Shared, on_cancel: Callable[[TakenJob], None]) -> None:
        self._shared, self._buffer, self._rates = shared, shared.buffer, shared.rates
        self._on_cancel = on_cancel
        self.lease = shared.lease(is_own=True)
        self._lock_seconds = shared.options.lock
        self._interval = self._lock_seconds / BEATS_PER_LOCK
        self._due_at = time.monotonic() + self._interval
        self._begun: set[TakenJob] = set()  # at the last look
        self._to_stop: deque[Sequence[int]] = deque()
        self._bell = Bell()
        self._duty = Duty(f"{shared.channel}-heartbeats", self._step, shared.fail)

    def start(self) -> None:
        self._duty.start()

    def look(self, ids: Sequence[int]) -> None:
        """These jobs were cancelled; without ids, any. Called by other threads."""
        self._to_stop.append(ids)
        self._bell.ring()

    def close(self) -> None:
        self._duty.closing.set()
        self._bell.ring()
        self._duty.close()
        self._bell.close()
        self.lease.close()

    def _step(self) -> float | None:
        if self._duty.closing.is_set():
            return None
        try:
            self._look()
            if self._bell.wait(min(LOOK_SECONDS, self._interval / 4)):
                self._stop_notified()
        except Stopping:
            return None
        return 0.0

    def _look(self) -> None:
        begun = self._buffer.begun()
        lasting = [job for job in begun if job in self._begun]
        self._begun = set(begun)
        self._stop_cancelled(begun)
        self._extend_due(lasting)
        if self._rates.is_due():
            schema = self._shared.schema
            self.lease.run(lambda c: self._rates.report(c, schema), self._give_up_expired)

    def _stop_notified(self) -> None:
        """What a notification names is looked up immediately, not with the next look."""
        while self._to_stop:
            ids = set(self._to_stop.popleft())
            held = self._buffer.held()
            self._stop_cancelled([job for job in held if not ids or job.id in ids])

    def _stop_cancelled(self, jobs: Sequence[TakenJob]) -> None:
        running = {job.id: job for job in jobs if not job.cancelled}
        if not running:
            return
        ids, schema = list(running), self._shared.schema
        found = self.lease.run(
            lambda conn: verbs.cancelled(conn, ids, schema=schema), self._give_up_expired
        )
        for id_ in found:
            self._cancel(running[id_])

    def _cancel(self, job: TakenJob) -> None:
        if not job.cancelled:
            job.cancelled = True
            self._on_cancel(job)

    def _extend_due(self, lasting: Iterable[TakenJob]) -> None:
        """All jobs if it is time, else those of which the server does not know something."""
        now, begun = time.monotonic(), set(lasting)
        held = self._buffer.held()
        if now >= self._due_at:
            self._due_at = now + self._interval
        else:
            held = [j for j in held if has_news(j) or (j in begun and not j.is_begin_told)]
        if held:
            self._extend(held, begun)

    def _extend(self, jobs: list[TakenJob], begun: set[TakenJob]) -> None:
        # From before it is sent: the server counts from later.
        deadline = time.monotonic() + self._lock_seconds
        verdicts = self.lease.run(lambda conn: self._send(conn, jobs, begun), self._give_up_expired)
        for job, verdict in zip(jobs, verdicts, strict=True):
            if verdict in (Verdict.STALE, Verdict.GONE):
                self._lost(job, verdict)
                continue
            job.deadline = deadline
            if verdict is Verdict.CANCELLED:
                self._cancel(job)

    def _send(self, conn: Connection, jobs: list[TakenJob], begun: set[TakenJob]) -> list[Verdict]:
        news = [job.raw_progress if has_news(job) else None for job in jobs]
        verdicts = verbs.extend(
            conn,
            jobs,
            self._lock_seconds,
            news,
            begun=[job in begun for job in jobs],
            schema=self._shared.schema,
        )
        for job, told in zip(jobs, news, strict=True):
            job.told_progress = told or job.told_progress
            # Not where a channel waits for the begin: that is reported, with its time.
            job.is_begin_told = job.is_begin_told or (job in begun and not job.begin_rules)
        return verdicts

    def _give_up_expired(self) -> None:
        """While the server cannot be reached. Its verdict will be the same."""
        now = time.monotonic()
        for job in self._buffer.held():
            if job.deadline < now:
                job.lost = True

    def _lost(self, job: TakenJob, verdict: Verdict) -> None:
        """Unless it was settled meanwhile: then it is not held any more."""
        if not self._buffer.holds(job):
            return
        job.lost = True
        # A job that was completed a moment ago is gone, too.
        level = logging.WARNING if verdict is Verdict.STALE else logging.DEBUG
        message = "worker=%s job=%s attempt=%s verdict=%s: lost its lock"
        log.log(level, message, self._shared.channel, job.id, job.attempt, verdict)


def has_news(job: TakenJob) -> bool:
    """Compared as objects: every progress() makes a new one."""
    return job.raw_progress is not job.told_progress
