"""One worker process of ours that drains the queue with one of the handlers below, and prints the
seconds: of all of `run`, from connecting to the last completion told."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from milepost import Milepost
from milepost.records import Job

if TYPE_CHECKING:
    from milepost.db import AsyncConnection, Connection
    from milepost.handlers import Handler
    from milepost.records import TakenJob

CHANNEL = "work"
BATCH = 100
# The effect of a job, where it has one. The rows are many: jobs do not wait for each other.
ROWS = 10_000
UPSERT = (
    "insert into counted values (%s, 1) "
    "on conflict (id) do update set count = counted.count + excluded.count"
)
_EFFECTS = ("upsert", "async upsert", "batch upsert", "async batch upsert")
_TASKS = ("task", "async task")


def drain(url: str, handler: str, pattern: str = "*") -> float:
    """In a process of its own, with one of the handlers below."""
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.queue_worker", handler, pattern],
        env=os.environ | {"MILEPOST_URL": url},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(run.stdout)


def job(handler: str, seq: int) -> Job:
    """What the handler is given."""
    arguments = {"seq": seq}
    if handler in _TASKS:
        return Job(CHANNEL, {"task": "handle", "arguments": arguments})
    return Job(CHANNEL, arguments)


def has_effects(handler: str) -> bool:
    return handler in _EFFECTS


def handle(job: TakenJob) -> None:
    """Nothing."""


async def handle_async(job: TakenJob) -> None:
    """Nothing."""


def task(seq: int) -> None:
    """Nothing."""


async def task_async(seq: int) -> None:
    """Nothing."""


def upsert(job: TakenJob, tx: Connection) -> None:
    tx.execute(UPSERT, [job.content["seq"] % ROWS])


async def upsert_async(job: TakenJob, tx: AsyncConnection) -> None:
    await tx.execute(UPSERT, [job.content["seq"] % ROWS])


def upsert_all(jobs: list[TakenJob], tx: Connection) -> None:
    with tx.cursor() as cursor:
        cursor.executemany(UPSERT, [[job.content["seq"] % ROWS] for job in jobs])


async def upsert_all_async(jobs: list[TakenJob], tx: AsyncConnection) -> None:
    async with tx.cursor() as cursor:
        await cursor.executemany(UPSERT, [[job.content["seq"] % ROWS] for job in jobs])


def _register(mp: Milepost, handler: str, pattern: str) -> None:
    handlers: dict[str, Handler] = {
        "def": handle,
        "async def": handle_async,
        "task": task,
        "async task": task_async,
        "upsert": upsert,
        "async upsert": upsert_async,
        "batch upsert": upsert_all,
        "async batch upsert": upsert_all_async,
    }
    if handler in _TASKS:
        mp.task(name="handle", channel=CHANNEL)(handlers[handler])
    elif "batch" in handler:
        mp.worker(pattern, handle="batch", batch=BATCH)(handlers[handler])
    else:
        mp.worker(pattern)(handlers[handler])


def _main(handler: str, pattern: str) -> None:
    mp = Milepost()
    _register(mp, handler, pattern)
    began = time.perf_counter()
    mp.run(until="drained")
    print(time.perf_counter() - began)


if __name__ == "__main__":
    _main(*sys.argv[1:])
