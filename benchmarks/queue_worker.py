"""One worker process of ours that drains the queue with a handler that does nothing, and prints
the seconds: of all of `run`, from connecting to the last completion told."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from milepost import Milepost

if TYPE_CHECKING:
    from milepost.records import TakenJob


def drain(url: str, handler: str) -> float:
    """In a process of its own, with one of the handlers below."""
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.queue_worker", handler],
        env=os.environ | {"MILEPOST_URL": url},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(run.stdout)


def handle(job: TakenJob) -> None:
    """Nothing."""


async def handle_async(job: TakenJob) -> None:
    """Nothing."""


def _main(handler: str) -> None:
    mp = Milepost()
    mp.worker("*")({"def": handle, "async def": handle_async}[handler])
    began = time.perf_counter()
    mp.run(until="drained")
    print(time.perf_counter() - began)


if __name__ == "__main__":
    _main(sys.argv[1])
