"""One instance of a segmented processor in a process of its own, until it is told to stop.

Run as `python -m benchmarks.segments_instance NAME SEGMENTS CONCURRENCY SECONDS`. Its handler waits
SECONDS for each message, and leaves the time at which it was done with the last one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from milepost import Milepost, db
from milepost.db import one

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.db import Connection
    from milepost.records import RecordedMessage

BATCH = 50
TABLE = "create table done (handled bigint not null, last_at double precision not null)"
_SHARES = """
select count(*) from milepost.segments
where processor = %s and claimed_until > clock_timestamp() group by owner
"""


@contextmanager
def started(
    url: str, name: str, number: int, segments: int, concurrency: int, seconds: float
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many instances, once each has its share; told to stop at the end."""
    instances = [
        subprocess.Popen(
            [sys.executable, "-m", __name__, name, str(segments), str(concurrency), str(seconds)],
            env=os.environ | {"MILEPOST_URL": url},
        )
        for _ in range(number)
    ]
    try:
        with db.connect(url) as conn:
            wait_for_shares(conn, name, [segments // number] * number)
        yield instances
    finally:
        for instance in instances:
            instance.send_signal(signal.SIGTERM)
        for instance in instances:
            instance.wait()


def wait_for_shares(conn: Connection, name: str, shares: list[int]) -> None:
    """Until the segments are claimed in these numbers."""
    while sorted(row[0] for row in conn.execute(_SHARES, [name])) != shares:
        time.sleep(0.05)


def wait_for_done(conn: Connection, number: int) -> float:
    """When the last of so many was handled."""
    while True:
        handled, last_at = one(
            conn.execute("select sum(handled), max(last_at) from done").fetchone()
        )
        if (handled or 0) >= number:
            return float(last_at)
        time.sleep(0.02)


def main(name: str, segments: str, concurrency: str, seconds: str) -> None:
    mp, wait_seconds = Milepost(), float(seconds)

    @mp.processor(name, segments=int(segments), concurrency=int(concurrency), batch_size=BATCH)
    def handle(messages: list[RecordedMessage], tx: Connection) -> None:
        for _ in messages:
            time.sleep(wait_seconds)
        tx.execute("insert into done values (%s, %s)", [len(messages), time.time()])

    mp.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
