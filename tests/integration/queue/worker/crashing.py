"""A worker process that is killed, or kills itself: python -m tests....crashing URL HISTORY
CONCURRENCY.

It takes many jobs ahead, however slow the machine is, and loses no lock. The server learns within
half a second what has begun. Its handlers write what they begin and end into a file that survives
the process. A job's content is what it does: `{"sleep": seconds}`, `{"hang": true}` or
`{"exit": seconds}`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from milepost import Milepost, TakenJob
from milepost.queue.worker import heartbeats
from milepost.queue.worker.buffer import Ahead
from milepost.runtime import Timing
from tests.integration.queue.conftest import LONG_LOCK
from tests.zygote import Process, started

AHEAD = 10


@contextmanager
def crashing(url: str, history: Path, concurrency: int) -> Iterator[Process]:
    """Killed at the end of the block, if it still runs."""
    command = ["python", "-m", __name__, url, str(history), str(concurrency)]
    with started(command) as process:
        yield process


def events(history: Path, event: str) -> list[int]:
    """The ids of the jobs, in order."""
    lines = history.read_text().splitlines() if history.exists() else []
    return [int(line.split()[1]) for line in lines if line.startswith(f"{event} ")]


def run(url: str, history: str, concurrency: int) -> None:
    heartbeats.LOOK_SECONDS = 0.25
    setattr(Ahead, "ahead", lambda *_: AHEAD)  # noqa: B010 - as a test patches it
    mp = Milepost(url, timing=Timing(held_seconds=3600))  # it dies with what it holds
    file = os.open(history, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)

    @mp.worker("c", concurrency=concurrency, lock=LONG_LOCK, poll_seconds=0.1)
    def work(job: TakenJob) -> None:
        os.write(file, f"begin {job.id} {job.attempt}\n".encode())
        if "hang" in job.content:
            time.sleep(3600)
        elif "exit" in job.content:
            time.sleep(job.content["exit"])
            os._exit(3)
        time.sleep(job.content.get("sleep", 0))
        os.write(file, f"end {job.id} {job.attempt}\n".encode())

    mp.run()


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]))
