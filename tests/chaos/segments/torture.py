"""The torture of a segmented processor: four instances, killed, stopped for a while and replaced at
random while messages are appended and segments split and merged; then it may catch up, and is
compared with the log.

Only processes that were started here are ever signalled.
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

from milepost import Message, Milepost, db
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.errors import SegmentsBusy
from milepost.log import horizon
from milepost.processors.definition import ProcessorOptions
from milepost.processors.progress import has_seen, standings
from milepost.processors.segments import operations
from milepost.records import Position
from tests.chaos.effects import doubled
from tests.chaos.segments import instance
from tests.chaos.segments.outcome import Outcome, compare
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
KEY = CheckpointKey(instance.NAME)
INSTANCES = 4
KEYS = 500
MESSAGES_A_SECOND = 2_100  # at most; with the appends themselves, 100,000 a minute
CATCH_UP_SECONDS = 180.0
_LOG = 'select transaction_id, "position", key from milepost.messages order by 1, 2'
_EFFECTS = "select transaction_id, position from effects order by number"


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    seconds: float
    kills: int
    pauses: int
    changes: int
    outcome: Outcome

    def __str__(self) -> str:
        return (
            f"seed {self.seed}, {self.seconds:.0f} s: {self.kills} instances killed, "
            f"{self.pauses} stopped for a while, {self.changes} splits and merges\n  {self.outcome}"
        )


@dataclass(slots=True)
class Instances:
    """Four at any time, but for those that were just killed."""

    url: str
    directory: Path  # for what they say
    rng: random.Random
    mode: str
    living: list[subprocess.Popen[bytes]] = field(default_factory=list)
    started: int = 0
    kills: int = 0
    pauses: int = 0

    def start(self) -> None:
        with (self.directory / f"{self.started}.errors").open("wb") as errors:
            command = [sys.executable, "-m", instance.__name__, self.url]
            command += [str(self.rng.getrandbits(32)), self.mode]
            self.living.append(subprocess.Popen(command, cwd=ROOT, stderr=errors))
        self.started += 1

    def torment_one(self) -> None:
        """Killed and replaced, or stopped for longer than its claims last, which makes it a stale
        owner that does not know it."""
        self.check()
        victim = self.rng.choice(self.living)
        if self.rng.random() < 0.3:
            self.pause(victim)
            return
        self.living.remove(victim)
        victim.kill()
        victim.wait()
        self.kills += 1
        self.start()

    def pause(self, victim: subprocess.Popen[bytes]) -> None:
        victim.send_signal(signal.SIGSTOP)
        time.sleep(self.rng.uniform(0.5, 2.5) * instance.CLAIM_SECONDS)
        victim.send_signal(signal.SIGCONT)
        self.pauses += 1

    def check(self) -> None:
        """An instance ends when it is told to or killed, never of itself."""
        if any(process.poll() is not None for process in self.living):
            raise RuntimeError(f"an instance ended by itself:\n{self._said()}")

    def kill_all(self) -> None:
        for process in self.living:
            process.kill()
            process.wait()

    def _said(self) -> str:
        files = sorted(self.directory.glob("*.errors"))
        return "\n".join(file.read_text()[-4000:] for file in files)


@dataclass(slots=True)
class Torture:
    url: str
    directory: Path
    seconds: float
    seed: int
    mode: str = "exactly once"
    doubled: int = 0  # so many effects must have happened twice, however long that takes
    changes: int = 0

    def run(self) -> Result:
        with db.connect(self.url) as conn:
            conn.execute(instance.TABLE)
            with self._instances() as instances:
                with _thread(self._append), _thread(self._change):
                    self._torment(instances, conn)
                wait_until(lambda: self._has_caught_up(conn, instances), CATCH_UP_SECONDS)
            outcome = _outcome(conn)
        return Result(
            self.seed, self.seconds, instances.kills, instances.pauses, self.changes, outcome
        )

    def _torment(self, instances: Instances, conn: Connection) -> None:
        """The time counts from when there are effects, however slow the machine."""
        wait_until(lambda: conn.execute("select from effects limit 1").fetchone() is not None)
        end = time.monotonic() + self.seconds
        while time.monotonic() < end or doubled(conn) < self.doubled:
            time.sleep(instances.rng.uniform(0.2, 1.5))
            instances.torment_one()

    @contextmanager
    def _instances(self) -> Iterator[Instances]:
        instances = Instances(self.url, self.directory, random.Random(self.seed), self.mode)
        try:
            for _ in range(INSTANCES):
                instances.start()
            yield instances
        finally:
            instances.kill_all()

    def _append(self, stop: threading.Event) -> None:
        rng, mp = random.Random(f"{self.seed} append"), Milepost(self.url)
        with mp.connect() as conn:
            while not stop.wait(0.05):
                number = rng.randint(1, MESSAGES_A_SECOND // 10)
                with conn.transaction(force_rollback=rng.random() < 0.05):
                    keys = (f"key-{rng.randrange(KEYS)}" for _ in range(number))
                    mp.append(conn, *(Message("Made", {}, key=key) for key in keys))

    def _change(self, stop: threading.Event) -> None:
        """Split and merge at random, around the number that it began with."""
        rng = random.Random(f"{self.seed} change")
        with db.connect(self.url) as conn:
            while not stop.wait(rng.uniform(0.2, 1.0)):
                ids = [s.segment.id for s in standings(conn, "milepost", KEY) if s.segment]
                is_split = rng.random() < (0.7 if len(ids) < instance.SEGMENTS else 0.3)
                try:
                    if is_split and ids:
                        operations.split(self._connect, "milepost", KEY, rng.choice(ids), 15.0)
                    elif len(ids) > 1:
                        operations.merge(self._connect, "milepost", KEY, None, 15.0)
                    self.changes += 1
                except SegmentsBusy:
                    continue

    def _connect(self) -> Connection:
        return db.connect(self.url)

    def _has_caught_up(self, conn: Connection, instances: Instances) -> bool:
        instances.check()
        at = horizon(conn).position
        return has_seen(conn, "milepost", ProcessorOptions(instance.NAME), at)


@contextmanager
def _thread(target: Callable[[threading.Event], None]) -> Iterator[None]:
    """Until the end of the block; its error is raised then."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(target, stop)
        try:
            yield
        finally:
            stop.set()
        running.result()


def _outcome(conn: Connection) -> Outcome:
    log = [(Position(t, p), key) for t, p, key in conn.execute(_LOG)]
    return compare(log, [Position(*row) for row in conn.execute(_EFFECTS)])
