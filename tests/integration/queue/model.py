"""The queue as plain Python: what every step must do, without time, sessions or indexes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from milepost.queue import Policy
from milepost.records import Verdict

NONE = Policy()
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
    is_begun: bool = False
    is_awaited: bool = False
    crashes: int = 0
    taken: int = 0  # the number of its take

    @property
    def turn(self) -> tuple[int, datetime, int]:
        return self.priority, self.run_at, self.id

    def facts(self) -> tuple[object, ...]:
        return (
            self.id, self.channel, self.status, self.attempt, self.failures, self.is_cancelled,
            self.state, self.crashes,
        )  # fmt: skip


@dataclass(slots=True)
class Model:
    jobs: dict[int, ModelJob] = field(default_factory=dict)
    policies: dict[str, Policy] = field(default_factory=dict)
    resting: set[str] = field(default_factory=set)  # within their release interval
    takes: int = 0
    spent: dict[str, int] = field(default_factory=dict)  # of the burst of a rate

    def of(self, channel: str, *statuses: str) -> list[ModelJob]:
        jobs = [j for j in self.jobs.values() if j.channel == channel and j.status in statuses]
        return sorted(jobs, key=lambda job: job.turn)

    def holder(self, channel: str, key: str | None) -> ModelJob | None:
        """The unfinished job that has the key."""
        found = [j for j in self.of(channel, *UNFINISHED) if key and j.unique_key == key]
        assert len(found) <= 1
        return found[0] if found else None

    def policy(self, channel: str) -> Policy:
        """Its own, or that of its longest family, as a whole."""
        families = [n for n in self.policies if n.endswith("*") and channel.startswith(n[:-1])]
        names = [channel, *sorted(families, key=len, reverse=True)]
        return next((self.policies[name] for name in names if name in self.policies), NONE)

    def is_full(self, channel: str) -> bool:
        size = self.policy(channel).max_size
        return size is not None and len(self.of(channel, *UNFINISHED)) >= size

    def set_policy(self, channel: str, policy: Policy) -> None:
        """A first interval begins with the policy; a later one with the last release."""
        old = self.policies.get(channel, Policy())
        if policy.release_interval is None:
            self.resting.discard(channel)
        elif old.release_interval is None:
            self.resting.add(channel)
        self.policies[channel] = policy

    def unset_policy(self, name: str) -> bool:
        """What a channel without any policy has spent is forgotten."""
        was_set = self.policies.pop(name, None) is not None
        if was_set:
            self.resting.discard(name)
            self.spent.pop(name, None)
        for channel in list(self.spent):
            if self.policy(channel) is NONE:
                del self.spent[channel]
        return was_set

    def room(self, channel: str) -> int:
        policy = self.policy(channel)
        is_held = channel in self.resting or self.is_awaiting(channel)
        if policy.paused or (policy.release_interval and is_held):
            return 0
        rooms = [10**6]
        if policy.max_concurrency is not None:
            rooms.append(policy.max_concurrency - len(self.of(channel, "running")))
        if policy.rate is not None:
            rooms.append(policy.rate.burst - self.spent.get(channel, 0))
        if policy.release_interval:
            rooms.append(1)
        return min(rooms)

    def total_room(self, family: str) -> int:
        """What the limit over a family leaves, to all channels that its policy applies to."""
        policy = self.policies[family]
        mine = [j for j in self.jobs.values() if self.policy(j.channel) is policy]
        running = sum(job.status == "running" for job in mine)
        return (policy.max_concurrency_total or 10**6) - running

    def is_awaiting(self, channel: str) -> bool:
        """Whether it waits for the begin of the job that was taken last."""
        running = sorted(self.of(channel, "running"), key=lambda job: job.taken)
        has_interval = self.policy(channel).release_interval is not None
        return has_interval and bool(running) and running[-1].is_awaited

    def begin(self, job: ModelJob) -> None:
        if self.policy(job.channel).release_interval is not None:
            self.resting.add(job.channel)

    def expire(self, job: ModelJob) -> None:
        """An attempt that had not begun is no failure. From 2 crashes on, the job runs alone."""
        if job.is_awaited:
            self.begin(job)
        is_last = job.failures + 1 >= job.max_attempts
        if not job.is_begun:
            job.crashes = job.crashes if is_last else min(2, job.crashes + 1)
            job.status = "cancelled" if job.is_cancelled else "ready"
            return
        is_next_last = job.failures + 2 >= job.max_attempts
        crashes = 2 if is_next_last else min(2, job.crashes + 1)
        self.fail(job)
        job.crashes = crashes

    def duties(self) -> None:
        """Expired jobs wait again, or are dead; what is finished and not kept is gone."""
        for job in list(self.jobs.values()):
            if job.status == "running" and job.is_expired:
                self.expire(job)
            if job.status in FINISHED and not job.is_kept:
                del self.jobs[job.id]

    def take(self, max_count: int, after: str, *, is_ahead: bool) -> list[tuple[int, int]]:
        """The ids and attempts that are to be taken, in order."""
        names = sorted({job.channel for job in self.jobs.values() if job.status == "ready"})
        turn = [n for n in names if n > after] + [n for n in names if n <= after]
        turn = [n for n in turn if self.room(n) > 0 and self._is_open(n)][:max_count]
        share = max(1, max_count // max(1, len(turn)))
        one_more = max(0, max_count - share * len(turn))  # channels, the first ones
        quotas = {n: min(share + (at < one_more), self.room(n)) for at, n in enumerate(turn)}
        self._share_totals(quotas)
        taken = [j for n in turn for j in self.of(n, "ready")[: quotas[n]]]
        taken = taken[:max_count]
        if taken and taken[0].crashes >= 2:
            taken = taken[:1]
        else:
            taken = [job for job in taken if job.crashes < 2]
        return [self._release(job, is_ahead) for job in taken]

    def _is_open(self, channel: str) -> bool:
        return all(self.total_room(f) > 0 for f in self._totals([channel]))

    def _totals(self, channels: list[str]) -> dict[str, list[str]]:
        """The families with a limit over them, and which of these channels they apply to."""
        found = {
            family: [n for n in channels if self.policy(n) is policy]
            for family, policy in self.policies.items()
            if policy.max_concurrency_total is not None
        }
        return {family: names for family, names in found.items() if names}

    def _share_totals(self, quotas: dict[str, int]) -> None:
        for family, names in self._totals(list(quotas)).items():
            share, one_more = divmod(self.total_room(family), len(names))
            for at, name in enumerate(names):
                quotas[name] = min(quotas[name], share + (at < one_more))

    def _release(self, job: ModelJob, is_ahead: bool) -> tuple[int, int]:
        self.takes += 1
        job.status, job.attempt, job.is_expired = "running", job.attempt + 1, False
        job.is_begun, job.is_awaited, job.taken = not is_ahead, False, self.takes
        policy = self.policy(job.channel)
        if policy.release_interval:
            self.resting.add(job.channel)
            job.is_awaited = is_ahead
        if policy.rate:
            self.spent[job.channel] = self.spent.get(job.channel, 0) + 1
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
        job.crashes = 0
        job.state = job.state if state is None else state

    def give_back(self, job: ModelJob) -> None:
        job.status = "cancelled" if job.is_cancelled else "ready"
        if job.is_awaited:
            self.resting.discard(job.channel)

    def fail(self, job: ModelJob, *, is_final: bool = False) -> None:
        job.failures += 1
        job.crashes = 0
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
