"""Every row of a stream of files is in the log exactly once, though the job that writes it with
`format("milepost")` is killed again and again, alone or with its Java. What is doubled without the
fence, tests/pipeline/sink shows."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from milepost import Milepost
from milepost.db import one
from tests.chaos.killing import killed_at_the_end
from tests.chaos.options import SECONDS, TIMEOUT_SECONDS, fewest_kills, new_seed
from tests.chaos.spark_writer import batches
from tests.chaos.spark_writer.names import FILES, TOPIC
from tests.soak import Figures
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(TIMEOUT_SECONDS + 300 + 60 * fewest_kills()),
    pytest.mark.parametrize("order", ["append"]),
]
START_SECONDS = 300.0  # for a Spark on a busy machine
MOST_BEHIND = 2_000  # rows: a writer without a limit would leave more than Spark can catch up


@dataclass
class Files:
    """Writes files of the numbers 0, 1, 2 ... in a thread of its own."""

    mp: Milepost
    place: Path
    rng: random.Random
    count: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def write(self) -> None:
        (self.place / FILES).mkdir()
        while not self.stop.wait(self.rng.uniform(0, 0.3)):
            if self.count - _written(self.mp) < MOST_BEHIND:
                size = self.rng.randint(1, 60)
                numbers = range(self.count, self.count + size)
                new = self.place / "new"
                new.write_text("".join(f"{n}\n" for n in numbers))
                new.rename(self.place / FILES / f"{self.count}.txt")
                self.count += size

    @contextmanager
    def being_written(self) -> Iterator[None]:
        thread = threading.Thread(target=self.write)
        thread.start()
        try:
            yield
        finally:
            self.stop.set()
            thread.join()


def test_every_row_is_in_the_log_once_though_jobs_are_killed(
    mp: Milepost, url: str, tmp_path: Path, figures: Figures
) -> None:
    rng = random.Random(new_seed())
    files, kills = Files(mp, tmp_path, rng), 0
    with files.being_written():
        end = time.monotonic() + SECONDS
        while kills < fewest_kills() or time.monotonic() < end:
            with job(url, tmp_path) as process:
                _wait_for_progress(mp, process)
                time.sleep(rng.uniform(0.0, 2.0))
                if rng.random() < 0.5:
                    process.kill()  # its Java notices a moment later; it may still write
                    process.wait()
            kills += 1
    with job(url, tmp_path, "caught_up") as last:
        assert last.wait(300) == 0
    numbers = [int(str(message.data)) for message in mp.read(topics=[TOPIC])]
    figures(
        messages=files.count,
        kills=kills,
        lost=files.count - len(set(numbers)),
        doubled=len(numbers) - len(set(numbers)),
    )
    assert sorted(numbers) == list(range(files.count))


def test_every_row_is_in_the_log_once_though_batches_are_killed_often(
    mp: Milepost, url: str, tmp_path: Path, figures: Figures
) -> None:
    rng, kills = random.Random(new_seed()), 0
    words = ("tests.chaos.spark_writer.batches", str(tmp_path))
    end = time.monotonic() + SECONDS
    while kills < 5 * fewest_kills() or time.monotonic() < end:
        with killed_at_the_end(words, {"MILEPOST_URL": url}) as process:
            _wait_for_progress(mp, process)
            time.sleep(rng.uniform(0.0, 0.2))
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


@contextmanager
def job(url: str, place: Path, until: str = "stopped") -> Iterator[subprocess.Popen[bytes]]:
    words = ("tests.chaos.spark_writer.instance", str(place), until)
    with killed_at_the_end(words, {"MILEPOST_URL": url}) as process:
        yield process


def _written(mp: Milepost) -> int:
    with mp.connect() as conn:
        return int(one(conn.execute("select count(*) from milepost.messages").fetchone())[0])


def _wait_for_progress(mp: Milepost, process: subprocess.Popen[bytes]) -> None:
    """A job that is killed before it does anything proves little."""
    before = _written(mp)

    def has_moved() -> bool:
        assert process.poll() is None, "the job ended by itself"
        return _written(mp) > before

    wait_until(has_moved, START_SECONDS, look_seconds=0.1)
