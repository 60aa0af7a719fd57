"""The queue as plain Python: what every step must do, without time, sessions or indexes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from milepost.queue import Policy
from milepost.records import Verdict

UNFINISHED = ("ready", "scheduled", "running")
FINISHED = ("done", "cancelled")


@dataclass(slots=True)
class ModelJob:
    id: int
    channel: str
    priority: int
    run_at: datetime
    max_attempts: int
    unique_key: str | None
    is_kept: bool
    status: str
    state: bytes | None = None
    attempt: int = 0
    failures: int = 0
    is_cancelled: bool = False
    is_expired: bool = False
    token: int | None = None

    @property
    def turn(self) -> tuple[int, datetime, int]:
        return self.priority, self.run_at, self.id

    def facts(self) -> tuple[object, ...]:
        return (
            self.id, self.channel, self.status, self.attempt, self.failures, self.is_cancelled,
            self.state,
        )  # fmt: skip


@dataclass(slots=True)
class Model:
    jobs: dict[int, ModelJob] = field(default_factory=dict)
    policies: dict[str, Policy] = field(default_factory=dict)
    resting: set[str] = field(default_factory=set)  # within their release interval

    def of(self, channel: str, *statuses: str) -> list[ModelJob]:
        jobs = [j for j in self.jobs.values() if j.channel == channel and j.status in statuses]
        return sorted(jobs, key=lambda job: job.turn)

    def holder(self, channel: str, key: str | None) -> ModelJob | None:
        """The unfinished job that has the key."""
        found = [j for j in self.of(channel, *UNFINISHED) if key and j.unique_key == key]
        assert len(found) <= 1
        return found[0] if found else None

    def is_full(self, channel: str) -> bool:
        size = self.policies.get(channel, Policy()).max_size
        return size is not None and len(self.of(channel, *UNFINISHED)) >= size

    def set_policy(self, channel: str, policy: Policy) -> None:
        """A first interval begins with the policy; a later one with the last release."""
        old = self.policies.get(channel, Policy())
        if policy.release_interval is None:
            self.resting.discard(channel)
        elif old.release_interval is None:
            self.resting.add(channel)
        self.policies[channel] = policy

    def room(self, channel: str) -> int:
        policy = self.policies.get(channel, Policy())
        if policy.paused or channel in self.resting:
            return 0
        room = 10**6
        if policy.max_concurrency is not None:
            room = policy.max_concurrency - len(self.of(channel, "running"))
        return min(room, 1) if policy.release_interval else room

    def duties(self) -> None:
        """Expired jobs wait again, or are dead; what is finished and not kept is gone."""
        for job in list(self.jobs.values()):
            if job.status == "running" and job.is_expired:
                self.fail(job)
            if job.status in FINISHED and not job.is_kept:
                del self.jobs[job.id]

    def take(self, max_count: int, after: str) -> list[tuple[int, int]]:
        """The ids and attempts that are to be taken, in order."""
        names = sorted({job.channel for job in self.jobs.values() if job.status == "ready"})
        turn = [n for n in names if n > after] + [n for n in names if n <= after]
        turn = [n for n in turn if self.room(n) > 0][:max_count]
        share = max(1, max_count // max(1, len(turn)))
        one_more = max(0, max_count - share * len(turn))  # channels, the first ones
        quotas = {n: min(share + (at < one_more), self.room(n)) for at, n in enumerate(turn)}
        taken = [j for n in turn for j in self.of(n, "ready")[: quotas[n]]]
        return [self._release(job) for job in taken[:max_count]]

    def _release(self, job: ModelJob) -> tuple[int, int]:
        job.status, job.attempt, job.is_expired = "running", job.attempt + 1, False
        if self.policies.get(job.channel, Policy()).release_interval:
            self.resting.add(job.channel)
        return job.id, job.attempt

    def verdict(self, id_: int, attempt: int, token: int | None) -> Verdict:
        """DONE: the attempt holds the job."""
        job = self.jobs.get(id_)
        if job is None or job.status in FINISHED:
            return Verdict.GONE
        held = job.status == "running" and (job.attempt, job.token) == (attempt, token)
        return Verdict.DONE if held else Verdict.STALE

    def complete(self, job: ModelJob) -> None:
        job.status = "done"
        if not job.is_kept:
            del self.jobs[job.id]

    def defer(self, job: ModelJob, status: str, state: bytes | None) -> None:
        job.status = "cancelled" if job.is_cancelled else status
        job.state = job.state if state is None else state

    def fail(self, job: ModelJob, *, is_final: bool = False) -> None:
        job.failures += 1
        is_dead = is_final or job.failures >= job.max_attempts
        job.status = "dead" if is_dead else "ready"
        if job.is_cancelled:
            job.status = "cancelled"

    def cancel(self, job: ModelJob | None) -> Verdict:
        if job is None or job.status in FINISHED:
            return Verdict.GONE
        job.is_cancelled = True
        if job.status == "running":
            return Verdict.CANCELLED
        job.status = "cancelled"
        if not job.is_kept:
            del self.jobs[job.id]
        return Verdict.DONE

    def retry(self, job: ModelJob | None) -> Verdict:
        if job is None or job.status in FINISHED:
            return Verdict.GONE
        if job.status != "dead" or self.holder(job.channel, job.unique_key):
            return Verdict.STALE
        job.status, job.failures = "ready", 0
        return Verdict.DONE
