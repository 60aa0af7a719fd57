"""Steps that are done to the queue and to its model (model.py), and what must hold after each.

Time is made to pass: a lock expires, a job comes due and an interval ends when a rule says so.
The duties of take() are due at every take.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, TypeAlias

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from milepost.db import Connection, one
from milepost.errors import ChannelFull
from milepost.queue import Policy, Rate, put, set_channel, unset_channel
from milepost.queue.health import check
from milepost.queue.verbs import mark_begun, take
from milepost.records import BEGIN_AWAITED, LAST_ATTEMPT, SUSPECT, Job, TakenJob, Verdict
from tests.integration.queue.jobs import duties_due
from tests.integration.queue.jobs import expire as let_expire
from tests.integration.queue.model import FINISHED, Model, ModelJob
from tests.integration.queue.verbs import (
    cancel,
    cancel_running,
    complete,
    defer,
    fail,
    give_back,
    heartbeat,
    retry,
)

CHANNELS = st.sampled_from(["a", "b", "c"])
FAMILIES = st.sampled_from(["*", "b*"])
HOUR = timedelta(hours=1)
# One for all, which spends nothing while a test runs: what was spent is a number of jobs.
RATES = st.none() | st.none() | st.just(Rate(1, per=1000 * HOUR, burst=2))
POLICIES = st.builds(
    Policy,
    max_concurrency=st.none() | st.integers(1, 3),
    rate=RATES,
    release_interval=st.none() | st.none() | st.just(HOUR),
    max_size=st.none() | st.none() | st.integers(1, 6),
    paused=st.sampled_from([False, False, False, True]),
)
FAMILY_POLICIES = st.builds(
    Policy,
    max_concurrency=st.none() | st.integers(1, 3),
    max_concurrency_total=st.none() | st.integers(1, 4),
    rate=RATES,
    max_size=st.none() | st.none() | st.integers(1, 6),
    paused=st.sampled_from([False, False, False, True]),
)
JOBS = st.builds(
    Job,
    CHANNELS,
    priority=st.integers(0, 1),
    max_attempts=st.integers(1, 3),
    run_at=st.none() | st.none() | st.just(HOUR),
    unique_key=st.none() | st.sampled_from(["k", "l"]),
    keep_for=st.none() | st.just(HOUR),
    state=st.none() | st.just(b"first"),
)
Name: TypeAlias = tuple[int, int, int | None]  # how a worker names a job that it took
FACTS = """
select id, channel, status::text, attempt, failures, is_cancelled, state, crashes
from milepost.jobs order by id
"""


has_taken = precondition(lambda self: self.taken)


class Queue(RuleBasedStateMachine):
    conn: Connection

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.taken: list[TakenJob] = []
        # From the first id on: the same steps must draw the same examples.
        self.conn.execute("truncate milepost.jobs, milepost.channels restart identity")

    # -- producers and operators

    @initialize(jobs=st.lists(JOBS, min_size=3, max_size=8))
    def begin(self, jobs: list[Job]) -> None:
        """With enough to take, or most examples would be about an empty queue."""
        for job in jobs:
            self.put(job)

    @rule(job=JOBS)
    def put(self, job: Job) -> None:
        holder = self.model.holder(job.channel, job.unique_key)
        if holder is None and self.model.is_full(job.channel):
            with pytest.raises(ChannelFull):
                put(self.conn, job)
            return
        (id_,) = put(self.conn, job)
        if holder is not None:
            assert id_ == holder.id
            return
        self.model.jobs[id_] = ModelJob(
            id_, job.channel, job.priority, self.run_at(id_), job.max_attempts, job.unique_key,
            job.keep_for is not None, "ready" if job.run_at is None else "scheduled", job.state,
        )  # fmt: skip

    @rule(channel=CHANNELS, policy=POLICIES)
    def change_policy(self, channel: str, policy: Policy) -> None:
        set_channel(self.conn, channel, policy)
        self.model.set_policy(channel, policy)

    @rule(family=FAMILIES, policy=FAMILY_POLICIES)
    def change_family(self, family: str, policy: Policy) -> None:
        set_channel(self.conn, family, policy)
        self.model.set_policy(family, policy)

    @rule(name=CHANNELS | FAMILIES)
    def unset_policy(self, name: str) -> None:
        assert unset_channel(self.conn, name) is self.model.unset_policy(name)

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        ids = data.draw(self.some_ids())
        expected = [self.model.cancel(self.model.jobs.get(id_)) for id_ in ids]
        assert cancel(self.conn, ids) == expected

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        # In the order of their ids: two dead jobs may want the same key.
        ids = sorted(data.draw(self.some_ids()))
        expected = [self.model.retry(self.model.jobs.get(id_)) for id_ in ids]
        assert retry(self.conn, ids) == expected
        self.read_times(ids)

    # -- workers

    @rule(
        max_count=st.integers(1, 7),
        after=st.sampled_from(["", "a", "b", "c"]),
        is_durable=st.booleans(),
        is_ahead=st.booleans(),
    )
    def take(self, max_count: int, after: str, is_durable: bool, is_ahead: bool) -> None:
        duties_due(self.conn)
        self.model.duties()
        jobs = take(
            self.conn, max_count, 3600.0, after=after, is_durable=is_durable, is_ahead=is_ahead
        )
        expected = self.model.take(max_count, after, is_ahead=is_ahead)
        assert [(job.id, job.attempt) for job in jobs] == expected
        for job in jobs:
            assert job.begin_rules == self.rules_of(job)
            assert (job.token is None) is is_durable
            self.model.jobs[job.id].token = job.token
            policy = self.model.policies.get(job.channel, Policy())
            running = len(self.model.of(job.channel, "running"))
            assert policy.max_concurrency is None or running <= policy.max_concurrency
        self.taken += jobs

    @rule()
    def take_all(self) -> None:
        self.take(7, "", is_durable=False, is_ahead=True)

    @rule()
    def take_and_forget(self) -> None:
        """As after a crash of the server: nothing happened, but the worker has its jobs."""
        with self.conn.transaction(force_rollback=True):
            self.taken += take(self.conn, 7, 3600.0, is_durable=False)

    @has_taken
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        job = data.draw(self.some_taken())[0]
        expected = self.model.verdict(*named(job))
        if expected is Verdict.DONE:
            self.model.jobs[job.id].is_expired = False
            if self.model.jobs[job.id].is_cancelled:
                expected = Verdict.CANCELLED
        assert heartbeat(self.conn, [job], 3600.0) == [expected]

    @has_taken
    @rule(data=st.data(), has_begun=st.booleans())
    def mark_begun(self, data: st.DataObject, has_begun: bool) -> None:
        (job,) = data.draw(self.some_taken())[:1]
        job.begun_at = time.monotonic() if has_begun else None
        expected = self.model.verdict(*named(job))
        if has_begun and job.id in self.model.jobs:
            self.model.begin(self.model.jobs[job.id])
        for held in self.held([job]).values():
            held.is_begun, held.is_awaited = True, held.is_awaited and not has_begun
            if held.is_cancelled:
                expected = Verdict.CANCELLED
        assert mark_begun(self.conn, [job]) == [expected]

    @has_taken
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        jobs = data.draw(self.some_taken())
        verdicts = complete(self.conn, jobs)
        held = self.held(jobs)
        for job in held.values():
            self.model.complete(job)
        assert verdicts == self.expected(jobs, held)

    @has_taken
    @rule(
        data=st.data(),
        delay=st.sampled_from([None, HOUR]),
        state=st.none() | st.binary(max_size=2),
    )
    def defer(self, data: st.DataObject, delay: timedelta | None, state: bytes | None) -> None:
        jobs = data.draw(self.some_taken())
        verdicts = defer(self.conn, jobs, [delay] * len(jobs), [state] * len(jobs))
        held = self.held(jobs)
        for job in held.values():
            self.model.defer(job, "ready" if delay is None else "scheduled", state)
        assert verdicts == self.expected(jobs, held)
        self.read_times([job.id for job in held.values()])

    @has_taken
    @rule(data=st.data(), is_final=st.booleans())
    def fail(self, data: st.DataObject, is_final: bool) -> None:
        jobs = data.draw(self.some_taken())
        verdicts = fail(self.conn, jobs, finals=[is_final] * len(jobs))
        held = self.held(jobs)
        for job in held.values():
            self.model.fail(job, is_final=is_final)
        assert verdicts == self.expected(jobs, held)
        self.read_times([job.id for job in held.values()])

    @has_taken
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        jobs = data.draw(self.some_taken())
        verdicts = give_back(self.conn, jobs)
        held = self.held(jobs)
        for job in held.values():
            self.model.give_back(job)
        assert verdicts == self.expected(jobs, held)

    @has_taken
    @rule(data=st.data())
    def cancel_running(self, data: st.DataObject) -> None:
        jobs = data.draw(self.some_taken())
        verdicts = cancel_running(self.conn, jobs)
        held = self.held(jobs)
        for job in held.values():
            job.status, job.is_cancelled = "cancelled", True
        assert verdicts == self.expected(jobs, held)

    # -- time

    @has_taken
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        jobs = data.draw(self.some_taken())
        running = [j.id for j in jobs if self.model.verdict(*named(j)) is Verdict.DONE]
        let_expire(self.conn, running)
        for id_ in running:
            self.model.jobs[id_].is_expired = True

    @rule(channel=CHANNELS)
    def come_due(self, channel: str) -> None:
        for job in self.model.of(channel, "scheduled"):
            self.conn.execute(
                "update milepost.jobs set run_at = clock_timestamp() where id = %s", [job.id]
            )
            job.run_at, job.status = self.run_at(job.id), "ready"
        duties_due(self.conn)
        self.conn.execute("select milepost.promote_due()")

    @rule(channel=CHANNELS)
    def end_interval(self, channel: str) -> None:
        self.conn.execute(
            "update milepost.channels set next_release_at = clock_timestamp() - interval '2 h' "
            "where name = %s",
            [channel],
        )
        self.model.resting.discard(channel)

    @rule(channel=CHANNELS)
    def refill(self, channel: str) -> None:
        self.conn.execute(
            "update milepost.channels set rate_at = '-infinity' where name = %s", [channel]
        )
        self.model.spent.pop(channel, None)

    # -- what always holds

    @invariant()
    def every_job_is_as_the_model_has_it(self) -> None:
        found = {row[0]: row for row in self.conn.execute(FACTS).fetchall()}
        model = {job.id: job.facts() for job in self.model.jobs.values()}
        # Finished jobs that are not kept stay until the next take.
        assert found == model

    @invariant()
    def the_doctor_finds_nothing_that_the_next_take_would_not_mend(self) -> None:
        assert {fault.kind for fault in check(self.conn, late_seconds=600.0)} == set()

    # -- looking

    def rules_of(self, job: TakenJob) -> int:
        taken = self.model.jobs[job.id]
        return (
            LAST_ATTEMPT * (taken.failures + 1 >= taken.max_attempts)
            | SUSPECT * (taken.crashes >= 2)
            | BEGIN_AWAITED * taken.is_awaited
        )

    def held(self, jobs: list[TakenJob]) -> dict[Name, ModelJob]:
        """Those whose attempt holds them. A list may name one job by several."""
        return {
            named(job): self.model.jobs[job.id]
            for job in jobs
            if self.model.verdict(*named(job)) is Verdict.DONE
        }

    def expected(self, jobs: list[TakenJob], held: dict[Name, ModelJob]) -> list[Verdict]:
        """The others' verdicts are those after the change."""
        return [
            Verdict.DONE if named(job) in held else self.model.verdict(*named(job)) for job in jobs
        ]

    def some_taken(self) -> st.SearchStrategy[list[TakenJob]]:
        """Of all that were ever taken, those that are held more often than the stale ones."""
        held = [job for job in self.taken if self.held([job])]
        return st.lists(st.sampled_from(3 * held + self.taken), min_size=1, max_size=4)

    def some_ids(self) -> st.SearchStrategy[list[int]]:
        ids = sorted(self.model.jobs)
        return st.lists(st.sampled_from([*ids, 10**9]), min_size=1, max_size=4, unique=True)

    def run_at(self, id_: int) -> Any:
        return one(
            self.conn.execute("select run_at from milepost.jobs where id = %s", [id_]).fetchone()
        )[0]

    def read_times(self, ids: list[int]) -> None:
        for id_ in ids:
            job = self.model.jobs.get(id_)
            if job is not None and job.status not in FINISHED:
                job.run_at = self.run_at(id_)


def named(job: TakenJob) -> Name:
    return job.id, job.attempt, job.token
