"""procrastinate, with 30 jobs at a time, as in its documents (howto/production/concurrency), and a
pool of as many connections. A job's upsert is one statement on a connection of that pool. Finished
jobs are deleted, as ours and those of the other peers are."""

from __future__ import annotations

import asyncio
import sys

# Installed with the peers, not with Milepost.
from procrastinate import App, PsycopgConnector

from benchmarks.peers.stopwatch import Stopwatch

_CONCURRENCY = 30
_CHUNK = 1_000
_ROWS = 10_000
_COUNTED = "create table counted (id integer primary key, count integer not null)"
_UPSERT = (
    "insert into counted values (%(id)s, 1) "
    "on conflict (id) do update set count = counted.count + excluded.count"
)
# The database comes from libpq's variables.
app = App(connector=PsycopgConnector(min_size=_CONCURRENCY, max_size=_CONCURRENCY + 2))
watches: list[Stopwatch] = []


@app.task(name="upsert")  # type: ignore[untyped-decorator]  # not installed for the check
async def upsert(seq: int) -> None:
    await app.connector.execute_query_async(_UPSERT, id=seq % _ROWS)
    watches[0].note()


async def fill(count: int) -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await app.connector.execute_query_async(_COUNTED)
        for first in range(0, count, _CHUNK):
            chunk = range(first, min(first + _CHUNK, count))
            await upsert.batch_defer_async(*({"seq": seq} for seq in chunk))


async def drain(count: int) -> None:
    watches.append(Stopwatch(count))
    async with app.open_async():
        await app.run_worker_async(concurrency=_CONCURRENCY, wait=False, delete_jobs="successful")
    print(watches[0].seconds)


if __name__ == "__main__":
    command = {"fill": fill, "drain": drain}[sys.argv[1]]
    asyncio.run(command(int(sys.argv[2])))
