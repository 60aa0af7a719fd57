"""pgqueuer, as `tools/benchmark.py --strategy drain` of its authors runs it: uvloop and asyncpg;
with two dequeuers that take 100 at a time, instead of its defaults, five that take 10."""

from __future__ import annotations

import asyncio
import sys

# Installed with the peers, not with Milepost.
import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from benchmarks.peers.stopwatch import Stopwatch

_DEQUEUERS = 2
_ENTRYPOINT = "fetch"
_BATCH = 100


async def fill(count: int) -> None:
    queries = Queries(AsyncpgDriver(await _connect()))
    await queries.install()  # its default is durable: every table is logged
    await queries.enqueue([_ENTRYPOINT] * count, [b""] * count, [0] * count)


async def drain(count: int) -> None:
    watch = Stopwatch(count)
    peers = [PgQueuer(AsyncpgDriver(await _connect())) for _ in range(_DEQUEUERS)]
    await asyncio.gather(*(_dequeue(peer, watch) for peer in peers))
    print(watch.seconds)


async def _dequeue(peer: PgQueuer, watch: Stopwatch) -> None:
    async def handle(job: object) -> None:
        watch.note()

    peer.entrypoint(_ENTRYPOINT)(handle)
    await peer.run(batch_size=_BATCH, mode=QueueExecutionMode.drain)


async def _connect() -> asyncpg.Connection:
    return await asyncpg.connect()


if __name__ == "__main__":
    command = {"fill": fill, "drain": drain}[sys.argv[1]]
    uvloop.run(command(int(sys.argv[2])))
