"""awa-pg, with the settings of the scenario `hot` of its authors' `benchmark_runtime.py`: 256
workers, 50 connections, a poll every 50 ms. On its queue storage, filled by COPY, as its README
advises for many jobs; that scenario itself still uses the older tables."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

# Installed with the peers, not with Milepost.
from awa import AsyncClient

from benchmarks.peers.stopwatch import Stopwatch

_QUEUE = "hot"
_WORKERS = 256
_CONNECTIONS = 50
_POLL_MS = 50
_CHUNK = 10_000


@dataclass
class TimingJob:
    seq: int


async def fill(count: int) -> None:
    client = _client()
    await client.migrate()
    await client.install_queue_storage()
    for first in range(0, count, _CHUNK):
        chunk = range(first, min(first + _CHUNK, count))
        await client.enqueue_many_copy([TimingJob(seq) for seq in chunk], queue=_QUEUE)
    await client.close()


async def drain(count: int) -> None:
    client, watch = _client(), Stopwatch(count)

    async def handle(job: object) -> None:
        watch.note()

    client.task(TimingJob, queue=_QUEUE)(handle)
    await client.start([(_QUEUE, _WORKERS)], poll_interval_ms=_POLL_MS)
    while not watch.is_done:
        await asyncio.sleep(0.05)
    await client.shutdown(timeout_ms=5000)
    await client.close()
    print(watch.seconds)


def _client() -> AsyncClient:
    # The rest comes from libpq's variables.
    return AsyncClient("postgres:///", max_connections=_CONNECTIONS)


if __name__ == "__main__":
    command = {"fill": fill, "drain": drain}[sys.argv[1]]
    asyncio.run(command(int(sys.argv[2])))
