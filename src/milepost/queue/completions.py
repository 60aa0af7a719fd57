"""Collects how attempts ended and tells the queue, many at once, on a connection of its own.

While one batch is on its way the next one gathers. Nothing is forgotten before the server has
answered: after a lost connection a batch is sent again, which the fence makes harmless.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING

import psycopg

from milepost.queue.bell import Bell
from milepost.queue.endings import tell
from milepost.queue.link import LinkEnded
from milepost.queue.outcome import Kind, unacceptable
from milepost.queue.take import complete
from milepost.records import Verdict

if TYPE_CHECKING:
    from milepost.queue.hand import Hand
    from milepost.queue.link import Link
    from milepost.queue.outcome import Ending
    from milepost.queue.rates import Rates
    from milepost.records import TakenJob

LARGEST_BATCH = 1000
# Where more will end soon, a batch waits for so long to become larger.
GATHER_SECONDS = 0.003
REST_SECONDS = 60.0
log = logging.getLogger("milepost.queue")


@dataclass(slots=True)
class Completions:
    """`on_told` is called after every batch: slots of limited channels are free again."""

    link: Link
    hand: Hand
    rates: Rates
    on_told: Callable[[], None]
    on_failure: Callable[[BaseException], None]
    _done: deque[TakenJob] = field(default_factory=deque, init=False)
    _ended: deque[Ending] = field(default_factory=deque, init=False)
    _bell: Bell = field(default_factory=Bell, init=False)
    _closing: Event = field(default_factory=Event, init=False)
    _thread: Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = Thread(target=self._run, name=f"{self.link.name}-completions", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def done(self, job: TakenJob) -> None:
        """It ended well, and leaves nothing."""
        self._done.append(job)
        self._bell.ring()

    def ended(self, ending: Ending) -> None:
        self._ended.append(ending)
        self._bell.ring()

    def settled(self, job: TakenJob) -> None:
        """Told already, in the handler's own transaction, or lost."""
        self.hand.drop([job])
        self.rates.done([job])
        self.on_told()

    @property
    def pending(self) -> int:
        return len(self._done) + len(self._ended)

    def close(self) -> None:
        """Returns when everything is told."""
        self._closing.set()
        self._bell.ring()
        self._thread.join()
        self._bell.close()
        self.link.close()

    def _run(self) -> None:
        try:
            while not self._closing.is_set() or self.pending:
                self._step()
        except LinkEnded:
            log.warning("worker=%s ends untold=%s", self.link.name, self.pending)
        except BaseException as error:  # noqa: BLE001 - raised by the worker, in its own thread
            self.on_failure(error)

    def _step(self) -> None:
        if not self.pending:
            self._bell.wait(REST_SECONDS)
        if len(self._done) < LARGEST_BATCH // 2 and self.hand.waiting:
            self._closing.wait(GATHER_SECONDS)
        if self._done:
            self._tell_done()
        if self._ended:
            self._tell_endings()

    def _tell_done(self) -> None:
        jobs = [self._done.popleft() for _ in range(min(len(self._done), LARGEST_BATCH))]
        verdicts = self.link.run(lambda conn: complete(conn, jobs, schema=self.link.schema))
        self._told(zip(jobs, verdicts, strict=True))

    def _tell_endings(self) -> None:
        count = min(len(self._ended), LARGEST_BATCH)
        self._tell_valid([self._ended.popleft() for _ in range(count)])

    def _tell_valid(self, batch: list[Ending]) -> None:
        """One of them may hold what the server cannot, such as a time beyond all times: then each
        is told by itself, and that one failed. Those told twice are fenced."""
        try:
            self._tell(batch)
        except psycopg.DataError as error:
            if len(batch) == 1:
                self._tell([unacceptable(batch[0], error)])
                return
            for ending in batch:
                self._tell_valid([ending])

    def _tell(self, batch: list[Ending]) -> None:
        told = self.link.run(lambda conn: list(tell(conn, batch, self.link.schema)))
        for ending, verdict in told:
            if ending.kind is Kind.FAIL and verdict is Verdict.DONE:
                log_failure(ending)
        self._told((ending.job, verdict) for ending, verdict in told)

    def _told(self, told: Iterable[tuple[TakenJob, Verdict]]) -> None:
        verdicts = dict(told)
        self.hand.drop(verdicts)
        self.rates.done(verdicts)
        for job, verdict in verdicts.items():
            if verdict is not Verdict.DONE:
                log.warning(
                    "worker=%s job=%s attempt=%s verdict=%s: it had lost its lock",
                    self.link.name, job.id, job.attempt, verdict,
                )  # fmt: skip
        self.on_told()


def log_failure(ending: Ending) -> None:
    """One line, without the job's content; of the error its first line, which says what."""
    job = ending.job
    lines = (ending.error or "").strip().splitlines()
    error = lines[0] if lines else "no error was given"
    if ending.is_dead:
        log.error(
            "job=%s channel=%s attempt=%s failures=%s dead: %s",
            job.id, job.channel, job.attempt, job.failures + 1, error,
        )  # fmt: skip
        return
    delay = 0.0 if ending.delay is None else ending.delay.total_seconds()
    log.warning(
        "job=%s channel=%s attempt=%s failures=%s retry_seconds=%.3f failed: %s",
        job.id, job.channel, job.attempt, job.failures + 1, delay, error,
    )  # fmt: skip
