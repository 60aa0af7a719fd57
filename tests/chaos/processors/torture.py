"""The torture of an exactly-once processor: two instances, one of them killed and replaced again
and again, while messages are appended; then it may catch up, and is compared with the log.

Only processes that were started here are ever killed.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from milepost import Message, Milepost, db
from milepost.db import Connection
from milepost.records import Position
from tests.chaos.effects import doubled, last_number
from tests.chaos.processors import instance
from tests.chaos.processors.report import Deposit, Outcome, Progress, compare
from tests.waiting import wait_until

T = TypeVar("T")
ROOT = Path(__file__).parents[3]
INSTANCES = 2
WRITERS = 2
ACCOUNTS = 20
CATCH_UP_SECONDS = 180.0
SAMPLE_SECONDS = 0.02

_CHECKPOINT = """
select c.transaction_id, c."position", exists (
  select from milepost.messages as m
  where (m.transaction_id, m."position") > (c.transaction_id, c."position")
)
from milepost.checkpoints as c where c.processor = %s
"""
_LOG = """
select transaction_id, "position", key, (data ->> 'amount')::bigint from milepost.messages
order by transaction_id, "position"
"""
_EFFECTS = "select transaction_id, position from effects order by number"


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    seconds: float
    kills: int
    longest_gap_seconds: float
    outcome: Outcome

    def __str__(self) -> str:
        return (
            f"seed {self.seed}, {self.seconds:.0f} s: {self.kills} instances killed, at most "
            f"{self.longest_gap_seconds:.2f} s without progress\n  {self.outcome}"
        )


@dataclass(slots=True)
class Instances:
    """Two living ones at any time, and how many were killed."""

    url: str
    directory: Path  # for what they say
    rng: random.Random
    living: list[subprocess.Popen[bytes]] = field(default_factory=list)
    started: int = 0
    kills: int = 0

    def start(self) -> None:
        with self._errors(self.started).open("wb") as errors:
            seed = str(self.rng.getrandbits(32))
            command = [sys.executable, "-m", instance.__name__, self.url, seed]
            self.living.append(subprocess.Popen(command, cwd=ROOT, stderr=errors))
        self.started += 1

    def kill_one(self) -> None:
        self.check()
        victim = self.living.pop(self.rng.randrange(len(self.living)))
        victim.kill()
        victim.wait()
        self.kills += 1

    def check(self) -> None:
        """An instance ends when it is told to or killed, never of itself."""
        if any(process.poll() is not None for process in self.living):
            raise RuntimeError(f"an instance ended by itself:\n{self._said()}")

    def finish(self) -> None:
        """One that has only just been started knows no better than to die of the signal."""
        self.check()
        for process in self.living:
            process.terminate()
        codes = [process.wait(CATCH_UP_SECONDS) for process in self.living]
        if not set(codes) <= {0, -signal.SIGTERM}:
            raise RuntimeError(f"the instances ended with {codes}:\n{self._said()}")

    def kill_all(self) -> None:
        for process in self.living:
            process.kill()
            process.wait()

    def _errors(self, number: int) -> Path:
        return self.directory / f"{number}.errors"

    def _said(self) -> str:
        return "\n".join(self._errors(n).read_text() for n in range(self.started))


@dataclass(frozen=True, slots=True)
class Torture:
    url: str
    directory: Path
    seconds: float
    seed: int
    doubled: int = 0  # so many effects must have happened twice, however long that takes

    def run(self) -> Result:
        progress = Progress()
        with db.connect(self.url) as conn:
            conn.execute(instance.TABLES)
            with self._instances() as instances, self._watched(progress):
                with self._writers():
                    self._torment(instances, conn)
                wait_until(lambda: _has_caught_up(conn), CATCH_UP_SECONDS)
                instances.finish()
            outcome = _outcome(conn)
        return Result(self.seed, self.seconds, instances.kills, progress.longest_seconds, outcome)

    def _torment(self, instances: Instances, conn: Connection) -> None:
        """The time counts from when there are effects, and nobody is killed before there is one
        more, however slow the machine: or all might die before they have begun."""
        last = _wait_for_effects(conn, 0)
        end = time.monotonic() + self.seconds
        while time.monotonic() < end or doubled(conn) < self.doubled:
            time.sleep(instances.rng.uniform(0.2, 1.2))
            instances.kill_one()
            instances.start()
            last = _wait_for_effects(conn, last)

    @contextmanager
    def _instances(self) -> Iterator[Instances]:
        instances = Instances(self.url, self.directory, random.Random(self.seed))
        try:
            for _ in range(INSTANCES):
                instances.start()
            yield instances
        finally:
            instances.kill_all()

    @contextmanager
    def _writers(self) -> Iterator[None]:
        with _threads(self._write, [random.Random(f"{self.seed} {n}") for n in range(WRITERS)]):
            yield

    @contextmanager
    def _watched(self, progress: Progress) -> Iterator[None]:
        with _threads(self._watch, [progress]):
            yield

    def _write(self, rng: random.Random, stop: threading.Event) -> None:
        mp = Milepost(self.url)
        with mp.connect() as conn:
            while not stop.wait(rng.uniform(0, 0.06)):
                with conn.transaction(force_rollback=rng.random() < 0.1):
                    mp.append(conn, *(_deposit(rng) for _ in range(rng.randint(1, 12))))

    def _watch(self, progress: Progress, stop: threading.Event) -> None:
        with db.connect(self.url) as conn:
            while not stop.wait(SAMPLE_SECONDS):
                row = conn.execute(_CHECKPOINT, [instance.NAME]).fetchone()
                if row is not None:
                    progress.sample(time.monotonic(), Position(*row[:2]), has_work=row[2])


@contextmanager
def _threads(target: Callable[[T, threading.Event], None], arguments: list[T]) -> Iterator[None]:
    """One for each argument, until the end of the block; an error of one is raised then."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(arguments)) as pool:
        running = [pool.submit(target, argument, stop) for argument in arguments]
        try:
            yield
        finally:
            stop.set()
        for future in running:
            future.result()


def _deposit(rng: random.Random) -> Message:
    account = f"account-{rng.randrange(ACCOUNTS)}"
    return Message("Deposited", {"amount": rng.randint(-100, 1000)}, key=account)


def _wait_for_effects(conn: Connection, after: int) -> int:
    """The number of the last one, once there is one after that."""
    wait_until(lambda: last_number(conn) > after)
    return last_number(conn)


def _has_caught_up(conn: Connection) -> bool:
    row = conn.execute(_CHECKPOINT, [instance.NAME]).fetchone()
    return row is not None and not row[2]


def _outcome(conn: Connection) -> Outcome:
    log = [Deposit(Position(t, p), key, amount) for t, p, key, amount in conn.execute(_LOG)]
    effects = [Position(*row) for row in conn.execute(_EFFECTS)]
    balances = dict(conn.execute("select account, amount from balances").fetchall())
    return compare(log, effects, balances)
