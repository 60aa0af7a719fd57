"""One instance of several processors in a process of its own, until it is told to stop.

Run as `python -m benchmarks.standby_instance PREFIX NUMBER`. Each handler counts its
messages.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from milepost import Milepost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.db import Connection
    from milepost.records import RecordedMessage

BATCH = 50
TABLE = "create table totals (processor text primary key, handled bigint not null)"
_ADD = """
insert into totals (processor, handled) values (%s, %s)
on conflict (processor) do update set handled = totals.handled + excluded.handled
"""


@contextmanager
def started(
    url: str, prefix: str, number: int, instances: int
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many instances; told to stop at the end."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", __name__, prefix, str(number)],
            env=os.environ | {"MILEPOST_URL": url},
        )
        for _ in range(instances)
    ]
    try:
        yield running
    finally:
        for instance in running:
            instance.send_signal(signal.SIGTERM)
        for instance in running:
            instance.wait()


def main(prefix: str, number: str) -> None:
    mp = Milepost()
    for n in range(int(number)):
        _register(mp, f"{prefix}-{n}")
    mp.run()


def _register(mp: Milepost, name: str) -> None:
    @mp.processor(name, batch_size=BATCH)
    def handle(messages: list[RecordedMessage], tx: Connection) -> None:
        tx.execute(_ADD, [name, len(messages)])


if __name__ == "__main__":
    main(*sys.argv[1:])
