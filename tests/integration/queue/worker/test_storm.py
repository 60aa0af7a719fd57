"""Everything at once, on few jobs and few channels: no limit is exceeded at any moment, no session
blocks another for ever, and every job ends exactly once.

`take` is called in a transaction that then counts: it holds the lock of every limited channel it
took from, so the count is exact, and a policy cannot change meanwhile.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from psycopg.errors import DeadlockDetected

from milepost.db import Connection, one
from milepost.queue import Policy, put, set_channel
from milepost.queue.verbs import take
from milepost.records import Job, TakenJob, Verdict
from tests.integration.queue.conftest import OpenSession
from tests.integration.queue.jobs import expire
from tests.integration.queue.sabotage import take_out
from tests.integration.queue.verbs import (
    cancel,
    cancel_running,
    complete,
    defer,
    fail,
    give_back,
    heartbeat,
)
from tests.waiting import wait_until

SECONDS = 6.0  # at least: until enough has happened
PATIENCE_SECONDS = 200.0
TAKERS = 20
ENOUGH = 100
LIMITED = {"one": 1, "two": 2, "five": 5}
TOO_MANY = """
select c.name, c.max_concurrency, count(*)
from milepost.channels as c join milepost.jobs as j on j.channel = c.name
where j.status = 'running' and c.name = any(%s) and c.max_concurrency is not null
group by c.name, c.max_concurrency having count(*) > c.max_concurrency
"""
FEW = "select count(*) < 1000 from milepost.jobs where status = 'ready'"


@dataclass
class Storm:
    session: Callable[[], Connection]
    forgiven: tuple[type[Exception], ...] = ()
    violations: list[object] = field(default_factory=list)
    ended: Counter[int] = field(default_factory=Counter)  # how often each job
    asked_to_stop: set[int] = field(default_factory=set)
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, conn: Connection, chance: random.Random) -> list[TakenJob]:
        with conn.transaction():
            jobs = take(conn, chance.choice([1, 3, 10]), after=chance.choice(["a", "o", "t"]))
            channels = {job.channel for job in jobs}
            # A lower limit lets those go on that run already, so look only where it never is.
            found = conn.execute(TOO_MANY, [list(channels & LIMITED.keys())]).fetchall()
        self.violations += found
        return jobs

    def work(self, seed: int) -> None:
        conn, chance = self.session(), random.Random(seed)
        while not self.stop.is_set():
            with suppress(*self.forgiven):
                self.work_once(conn, chance)

    def work_once(self, conn: Connection, chance: random.Random) -> None:
        jobs = self.take(conn, chance)
        chance.shuffle(jobs)
        if jobs and chance.random() < 0.3:
            heartbeat(conn, jobs)
        self.end(conn, jobs, chance)

    def end(self, conn: Connection, jobs: list[TakenJob], chance: random.Random) -> None:
        verb = chance.choice(["complete"] * 5 + ["defer", "fail", "give back", "stop", "forget"])
        if verb == "complete":
            self.count(jobs, complete(conn, jobs))
        elif verb == "stop":
            self.count(jobs, cancel_running(conn, jobs))
        elif verb == "defer":
            defer(conn, jobs, [timedelta(milliseconds=chance.choice([0, 5]))] * len(jobs))
        elif verb == "fail":
            fail(conn, jobs)
        elif verb == "give back":
            give_back(conn, jobs)
        elif jobs:
            self.forget(conn, jobs)

    def forget(self, conn: Connection, jobs: list[TakenJob]) -> None:
        """The worker is too slow: its locks expire, and it comes back when they are others'."""
        expire(conn, sorted(job.id for job in jobs))
        with conn.transaction():
            take(conn, 0)
        self.count(jobs, complete(conn, jobs))

    def count(self, jobs: list[TakenJob], verdicts: list[Verdict]) -> None:
        with self.lock:
            for job, verdict in zip(jobs, verdicts, strict=True):
                if verdict is Verdict.DONE:
                    self.ended[job.id] += 1

    def cancel(self, seed: int, ids: list[int]) -> None:
        conn, chance = self.session(), random.Random(seed)
        while not self.stop.is_set():
            with suppress(*self.forgiven):
                self.cancel_some(conn, chance.sample(ids, 5))
            self.stop.wait(0.02)

    def cancel_some(self, conn: Connection, ids: list[int]) -> None:
        for id_, verdict in zip(ids, cancel(conn, ids), strict=True):
            with self.lock:
                if verdict is Verdict.DONE:
                    self.ended[id_] += 1
                elif verdict is Verdict.CANCELLED:
                    self.asked_to_stop.add(id_)

    def change_policies(self, seed: int) -> None:
        conn, chance = self.session(), random.Random(seed)
        while not self.stop.is_set():
            with suppress(*self.forgiven):
                set_channel(conn, "changing", Policy(chance.choice([None, 1, 3])))
                set_channel(conn, "five", Policy(5, paused=chance.random() < 0.3))
            self.stop.wait(0.01)


@pytest.mark.parametrize("is_sabotaged", [False, True])
def test_a_storm_breaks_no_promise(
    conn: Connection, session: OpenSession, is_sabotaged: bool
) -> None:
    # Without it takers also lock each other out, when they move the hints of several channels.
    forgiven = (DeadlockDetected,) if is_sabotaged else ()
    if is_sabotaged:
        take_out(conn, "channel lock")
    for name, limit in LIMITED.items():
        set_channel(conn, name, Policy(limit))
    names = [*LIMITED, "changing", "free"]
    ids = put(
        conn,
        *(Job(names[n % 5], max_attempts=1000, keep_for=timedelta(hours=1) if n % 3 else None)
          for n in range(3_000)),
    )  # fmt: skip
    storm = Storm(session, forgiven)
    with ThreadPoolExecutor(TAKERS + 3) as pool:
        doing = [pool.submit(storm.work, seed) for seed in range(TAKERS)]
        doing += [pool.submit(storm.cancel, seed, ids) for seed in range(2)]
        doing.append(pool.submit(storm.change_policies, 99))
        end = time.monotonic() + SECONDS

        def is_enough() -> bool:
            if any(future.done() for future in doing):
                return True
            if is_sabotaged:
                refill(conn)
                return bool(storm.violations)
            return time.monotonic() >= end and len(storm.ended) > ENOUGH

        try:
            wait_until(is_enough, PATIENCE_SECONDS, look_seconds=0.05)
        finally:
            storm.stop.set()
        for future in doing:
            future.result(60)
    if is_sabotaged:
        assert storm.violations
        return
    assert not storm.violations
    assert set(storm.ended.values()) == {1}
    found = conn.execute("select id, status::text from milepost.jobs").fetchall()
    left = dict(found)
    assert {id_ for id_, status in found if status == "done"} <= storm.ended.keys()
    unfinished = {id_ for id_, status in found if status not in ("done", "cancelled")}
    assert not unfinished & storm.ended.keys()
    # Whoever was asked to stop may also have ended by being deferred, given back or forgotten.
    assert set(ids) - left.keys() <= storm.ended.keys() | storm.asked_to_stop
    assert len(storm.ended) > ENOUGH


def refill(conn: Connection) -> None:
    """So that the storm goes on until somebody finds a limit exceeded, however long that takes."""
    if one(conn.execute(FEW).fetchone())[0]:
        put(conn, *(Job(name, max_attempts=1000) for name in LIMITED for _ in range(300)))
