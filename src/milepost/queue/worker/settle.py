"""Collects how attempts ended and tells the queue, many in one statement, on its own connection.

While one batch is on its way the next one gathers. No job is forgotten before the server has
answered: after a lost connection a batch is sent again, and the fence makes that harmless.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import psycopg

from milepost.queue import verbs
from milepost.queue.outcome import Ending, Kind, unacceptable
from milepost.queue.worker.begins import Begins
from milepost.records import Verdict
from milepost.runtime import Bell, Duty, Stopping

if TYPE_CHECKING:
    from milepost.queue.worker.shared import Shared
    from milepost.records import TakenJob
    from milepost.runtime import Repeats

LARGEST_BATCH = 1000
# If more attempts will end soon, a batch waits for so long to become larger.
GATHER_SECONDS = 0.003
REST_SECONDS = 60.0
log = logging.getLogger("milepost.queue")


class Settler:
    """Rings the worker's bell after each batch: slots of limited channels are free again."""

    def __init__(self, shared: Shared) -> None:
        self._shared, self._buffer, self._schema = shared, shared.buffer, shared.schema
        self.lease = shared.lease(is_own=True)
        self._done: deque[TakenJob] = deque()
        self._ended: deque[Ending] = deque()
        self._settling: list[TakenJob] = []
        self._begins = Begins(shared)
        self._bell = Bell()
        self._duty = Duty(f"{shared.channel}-settle", self._step, shared.fail)

    def start(self) -> None:
        self._duty.start()

    def done(self, job: TakenJob) -> None:
        """It is completed without a result."""
        self._done.append(job)
        self._bell.ring()

    def ended(self, ending: Ending) -> None:
        self._ended.append(ending)
        self._bell.ring()

    def settled(self, job: TakenJob) -> None:
        """In the handler's own transaction; or it is lost."""
        self._shared.rates.done([job])
        self._let_go([job])

    def expect_begin(self, job: TakenJob) -> None:
        """Its channel waits until it is reported that the job has begun."""
        self._begins.expect(job)
        self._bell.ring()

    def unsettled(self) -> set[TakenJob]:
        """Those that have ended; copied first, because handlers add to them."""
        ended = [ending.job for ending in self._ended.copy()]
        return {*self._done.copy(), *ended, *self._settling}

    @property
    def pending(self) -> int:
        return len(self._done) + len(self._ended)

    def close(self) -> None:
        """Returns when all attempts are settled."""
        self._duty.closing.set()
        self._bell.ring()
        self._duty.close()
        self._bell.close()
        self.lease.close()

    def _step(self) -> float | None:
        try:
            return self._settle_some()
        except Stopping:
            log.warning("worker=%s ends unsettled=%s", self._shared.channel, len(self._buffer))
            return None

    def _settle_some(self) -> float | None:
        if not self.pending:
            if self._duty.closing.is_set():
                return None
            self._bell.wait(self._begins.look_seconds(REST_SECONDS))
        if len(self._done) < LARGEST_BATCH // 2 and self._buffer.waiting:
            self._duty.closing.wait(GATHER_SECONDS)
        done = [self._done.popleft() for _ in range(min(len(self._done), LARGEST_BATCH))]
        ended = [self._ended.popleft() for _ in range(min(len(self._ended), LARGEST_BATCH))]
        self._settling = [*done, *(ending.job for ending in ended)]
        self._begins.report(self.lease)
        if done:
            self._complete(done)
        if ended:
            self._settle_valid(ended)
        return 0.0

    def _complete(self, jobs: list[TakenJob]) -> None:
        verdicts = self.lease.run(lambda conn: verbs.complete(conn, jobs, schema=self._schema))
        self._shared.rates.done(jobs)
        self._forget(zip(jobs, verdicts, strict=True))

    def _settle_valid(self, batch: list[Ending]) -> None:
        """One of them may contain what the server cannot store, such as a time out of its range.
        Then each is settled by itself, and that one fails. Those that are sent twice are fenced."""
        try:
            self._settle(batch)
        except psycopg.DataError as error:
            if len(batch) == 1:
                self._settle([unacceptable(batch[0], error)])
                return
            for ending in batch:
                self._settle_valid([ending])

    def _settle(self, batch: list[Ending]) -> None:
        settled = self.lease.run(lambda conn: list(verbs.settle(conn, batch, self._schema)))
        for ending, verdict in settled:
            if ending.kind is Kind.FAIL and verdict is Verdict.DONE:
                log_failure(ending, self._shared.repeats)
        self._shared.rates.done(e.job for e in batch if e.kind is not Kind.GIVE_BACK)
        self._forget((ending.job, verdict) for ending, verdict in settled)

    def _forget(self, settled: Iterable[tuple[TakenJob, Verdict]]) -> None:
        verdicts = dict(settled)
        self._let_go(verdicts)
        for job, verdict in verdicts.items():
            if verdict is not Verdict.DONE:
                log.warning(
                    "worker=%s job=%s attempt=%s verdict=%s: it had lost its lock",
                    self._shared.channel,
                    job.id,
                    job.attempt,
                    verdict,
                )

    def _let_go(self, jobs: Collection[TakenJob]) -> None:
        self._buffer.drop(jobs)
        self._shared.bell.ring()


def log_failure(ending: Ending, repeats: Repeats) -> None:
    """One line, without the job's content. Of the error its first line."""
    job = ending.job
    lines = (ending.error or "").strip().splitlines()
    error = lines[0] if lines else "no error was given"
    delay = 0.0 if ending.delay is None else ending.delay.total_seconds()
    if (more := repeats.note(f"{job.channel} {ending.is_dead} {error}")) is None:
        return
    log.log(
        logging.ERROR if ending.is_dead else logging.WARNING,
        "job=%s channel=%s attempt=%s failures=%s %s: %s%s",
        job.id,
        job.channel,
        job.attempt,
        job.failures + 1,
        "dead" if ending.is_dead else f"retry_seconds={delay:.3f} failed",
        error,
        more,
    )
