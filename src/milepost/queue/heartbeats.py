"""Signs of life for everything in hand, from a thread and on a connection of their own.

No handler can hold them up. A handler learns here that its job was lost, or is to stop.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING

from milepost.queue import take
from milepost.queue.link import LinkEnded
from milepost.records import Verdict

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.queue.hand import Hand
    from milepost.queue.link import Link
    from milepost.queue.rates import Rates
    from milepost.records import TakenJob

BEATS_PER_LOCK = 3
PROGRESS_SECONDS = 1.0
log = logging.getLogger("milepost.queue")


@dataclass(slots=True)
class Heartbeats:
    link: Link
    hand: Hand
    rates: Rates
    lock_seconds: float
    on_failure: Callable[[BaseException], None]
    _closing: Event = field(default_factory=Event, init=False)
    _thread: Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = Thread(target=self._run, name=f"{self.link.name}-heartbeats", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        self.link.close()

    def _run(self) -> None:
        interval = self.lock_seconds / BEATS_PER_LOCK
        beat_at = time.monotonic() + interval
        try:
            while not self._closing.wait(max(0.0, min(PROGRESS_SECONDS, interval / 4))):
                is_due = time.monotonic() >= beat_at
                if is_due:
                    beat_at = time.monotonic() + interval
                held = self.hand.held()
                if jobs := held if is_due else [job for job in held if has_news(job)]:
                    self._beat(jobs)
                if self.rates.is_due():
                    self.link.run(self.rates.report)
        except LinkEnded:
            return
        except BaseException as error:  # noqa: BLE001 - raised by the worker, in its own thread
            self.on_failure(error)

    def _beat(self, jobs: list[TakenJob]) -> None:
        # From before it is sent: the server counts from later.
        deadline = time.monotonic() + self.lock_seconds
        verdicts = self.link.run(lambda conn: self._send(conn, jobs))
        for job, verdict in zip(jobs, verdicts, strict=True):
            if verdict in (Verdict.STALE, Verdict.GONE):
                self._lost(job, verdict)
            else:
                job.deadline = deadline
                job.cancelled = job.cancelled or verdict is Verdict.CANCELLED

    def _send(self, conn: Connection, jobs: list[TakenJob]) -> list[Verdict]:
        news = [job.raw_progress if has_news(job) else None for job in jobs]
        statement = take.heartbeats(jobs, self.lock_seconds, news, self.link.schema)
        verdicts = take.run(conn, statement, self.link.schema)
        for job, told in zip(jobs, news, strict=True):
            job.told_progress = told or job.told_progress
        return verdicts

    def give_up_expired(self) -> None:
        """While the server cannot be reached, whose verdict will be the same."""
        now = time.monotonic()
        for job in self.hand.held():
            if job.deadline < now:
                job.lost = True

    def _lost(self, job: TakenJob, verdict: Verdict) -> None:
        """Unless it was told of meanwhile: then it is not held any more."""
        if not self.hand.holds(job):
            return
        job.lost = True
        # Gone is also what was completed a moment ago.
        log.log(
            logging.WARNING if verdict is Verdict.STALE else logging.DEBUG,
            "worker=%s job=%s attempt=%s verdict=%s: lost its lock",
            self.link.name, job.id, job.attempt, verdict,
        )  # fmt: skip


def has_news(job: TakenJob) -> bool:
    """Compared as objects: every progress() makes a new one."""
    return job.raw_progress is not job.told_progress
