"""Every row of a stream of files is in the log exactly once, though the job that writes it with
`format("milepost")` is killed again and again, alone, with its Java, or one of the Python processes
that stage and commit. What is doubled without the fence, tests/pipeline/sink shows."""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import pytest

from milepost import Milepost
from milepost.db import one
from tests.chaos import killing
from tests.chaos.options import SECONDS, TIMEOUT_SECONDS, fewest_kills, new_seed
from tests.chaos.spark_writer import batches
from tests.chaos.spark_writer.names import FILES, TOPIC
from tests.pipeline.cluster.daemon import kill, running_processes
from tests.pipeline.rebuilding import in_thread
from tests.soak import Figures
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(TIMEOUT_SECONDS + 300 + 60 * fewest_kills()),
    pytest.mark.parametrize("order", ["append"]),
]
INSTANCE = "tests.chaos.spark_writer.instance"
START_SECONDS = 300.0  # for a Spark on a busy machine
MOST_BEHIND = 2_000  # rows: a writer without a limit would leave more than Spark can catch up
Victim: TypeAlias = Literal["job", "job and Java", "Python of Spark"]
VICTIMS: tuple[Victim, ...] = get_args(Victim)
WEIGHTS = (1, 1, 4)  # a job takes seconds to start


@dataclass
class Files:
    """Writes files of the numbers 0, 1, 2 ... in a thread of its own."""

    mp: Milepost
    place: Path
    rng: random.Random
    count: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        (self.place / FILES).mkdir()
        while not self.stop.wait(self.rng.uniform(0, 0.3)):
            if self.count - _written(self.mp) < MOST_BEHIND:
                size = self.rng.randint(1, 60)
                numbers = range(self.count, self.count + size)
                new = self.place / "new"
                new.write_text("".join(f"{n}\n" for n in numbers))
                new.rename(self.place / FILES / f"{self.count}.txt")
                self.count += size


@dataclass
class Jobs:
    """One after the other, of one query. The next one has started Spark when it is needed."""

    url: str
    place: Path
    _next: subprocess.Popen[bytes] | None = None

    def begin(self, until: str = "stopped") -> subprocess.Popen[bytes]:
        process = self._next or self._start(until)
        self._next = self._start("stopped") if until == "stopped" else None
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        return process

    def close(self) -> None:
        if self._next is not None:
            killing.kill(self._next)
            self._next = None

    def _start(self, until: str) -> subprocess.Popen[bytes]:
        return killing.start((INSTANCE, str(self.place), until), {"MILEPOST_URL": self.url})


def test_every_row_is_in_the_log_once_though_jobs_are_killed(
    mp: Milepost, url: str, tmp_path: Path, figures: Figures
) -> None:
    rng, killed = random.Random(new_seed()), Counter[Victim]()
    files = Files(mp, tmp_path, rng)
    with in_thread(files), closing(Jobs(url, tmp_path)) as jobs:
        end = time.monotonic() + SECONDS
        while killed.total() < fewest_kills() or time.monotonic() < end:
            with killing.killed_at_the_end(jobs.begin()) as job:
                killed.update(_kill_until_it_is_dead(mp, job, rng))
    with (
        closing(Jobs(url, tmp_path)) as jobs,
        killing.killed_at_the_end(jobs.begin("caught_up")) as last,
    ):
        assert last.wait(START_SECONDS) == 0
    numbers = [int(str(message.data)) for message in mp.read(topics=[TOPIC])]
    sys.stdout.write(f"killed: {dict(killed)}\n")
    figures(
        messages=files.count,
        kills=killed.total(),
        lost=files.count - len(set(numbers)),
        doubled=len(numbers) - len(set(numbers)),
    )
    assert sorted(numbers) == list(range(files.count))


def test_every_row_is_in_the_log_once_though_batches_are_killed_often(
    mp: Milepost, url: str, tmp_path: Path, figures: Figures
) -> None:
    rng, kills = random.Random(new_seed()), 0
    # It has imported what they need: a process takes a tenth of a second instead of two.
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["pytest", batches.__name__])
    end = time.monotonic() + SECONDS
    while kills < 5 * fewest_kills() or time.monotonic() < end:
        process = forks.Process(target=batches.main, args=(tmp_path, url), daemon=True)
        process.start()
        try:
            _wait_for_progress(mp, process.is_alive)
            time.sleep(rng.uniform(0.0, 0.2))
        finally:
            process.kill()
            process.join()
        kills += 1
    found = [int(str(message.data)) for message in mp.read(topics=[TOPIC])]
    # The last batch may be written without being noted.
    last = batches.noted(tmp_path)
    wanted = range(2 * batches.ROWS * (last + 1))
    more = range(2 * batches.ROWS * (last + 2))
    figures(
        messages=len(wanted),
        kills=kills,
        lost=len(set(wanted) - set(found)),
        doubled=len(found) - len(set(found)),
    )
    assert found in ([*wanted], [*more])


def _kill_until_it_is_dead(
    mp: Milepost, job: subprocess.Popen[bytes], rng: random.Random
) -> Iterator[Victim]:
    """What is killed in the life of a job. The last one is the job itself."""
    while job.poll() is None:
        _wait_for_progress(mp, lambda: job.poll() is None)
        time.sleep(rng.uniform(0.0, 1.0))
        (victim,) = rng.choices(VICTIMS, WEIGHTS)
        if victim != "Python of Spark":
            killing.kill(job, is_alone=victim == "job")
            yield victim
        elif found := _pythons(job):
            kill(rng.choice(found))
            yield victim


def _pythons(job: subprocess.Popen[bytes]) -> list[int]:
    """The processes in which Spark runs Python for a job: they stage, or commit, or do nothing."""
    return [pid for pid, line in running_processes() if "-m pyspark." in line and _is_of(job, pid)]


def _is_of(job: subprocess.Popen[bytes], pid: int) -> bool:
    try:
        return os.getsid(pid) == job.pid
    except ProcessLookupError:
        return False


def _written(mp: Milepost) -> int:
    with mp.connect() as conn:
        return int(one(conn.execute("select count(*) from milepost.messages").fetchone())[0])


def _wait_for_progress(mp: Milepost, is_running: Callable[[], bool]) -> None:
    """A job that is killed before it does anything proves little."""
    before = _written(mp)

    def has_moved() -> bool:
        assert is_running(), "the job ended by itself"
        return _written(mp) > before

    wait_until(has_moved, START_SECONDS, look_seconds=0.05)
