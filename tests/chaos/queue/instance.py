"""One process of the fleet: python -m tests.chaos.queue.instance URL HISTORY SEED.

Its handlers write when they begin and end into a file that survives the process: what was written
before a SIGKILL is in the hands of the kernel. That the file exists means that a SIGTERM ends the
process in order.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time

from milepost import Milepost, TakenJob
from milepost.db import Connection

# Beyond what a busy machine may hold a heartbeat up: who loses its lock meanwhile works on for a
# moment beside the next one, and the limits are told to be passed.
LOCK_SECONDS = 10.0


def run(url: str, history: str, seed: int) -> None:
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit())  # until mp.run() has its own
    mp = Milepost(url)
    rng = random.Random(seed)
    file = os.open(history, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)

    def note(event: str, job: TakenJob) -> None:
        os.write(file, f"{event} {job.id} {job.attempt} {job.channel} {time.time()}\n".encode())

    def work(*jobs: TakenJob) -> None:
        for job in jobs:
            note("begin", job)
        time.sleep(rng.expovariate(300))
        for job in jobs:
            note("end", job)

    @mp.worker("plain.*", concurrency=8, lock=LOCK_SECONDS, poll_seconds=0.2)
    def plain(job: TakenJob) -> None:
        work(job)

    @mp.worker("tx.*", concurrency=4, lock=LOCK_SECONDS, poll_seconds=0.2)
    def transactional(job: TakenJob, tx: Connection) -> None:
        tx.execute("insert into effects (job) values (%s)", [job.id])
        work(job)

    @mp.worker("batch.*", handle="batch", batch=20, concurrency=4, lock=LOCK_SECONDS)
    def batching(jobs: list[TakenJob], tx: Connection) -> None:
        for job in jobs:
            tx.execute("insert into effects (job) values (%s)", [job.id])
        work(*jobs)

    mp.run()


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]))
