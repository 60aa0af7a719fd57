"""A process that Ctrl-C stops: python -m tests.integration.runtime.interrupted URL. Its handler
does not end by itself."""

from __future__ import annotations

import os
import sys
import time

from milepost import Milepost, TakenJob


def run(url: str) -> None:
    mp = Milepost(url)

    @mp.worker("c", poll_seconds=0.1)
    def work(job: TakenJob) -> None:
        os.write(1, b"begun\n")
        time.sleep(3600)

    mp.run(stop_seconds=3600)


if __name__ == "__main__":
    run(sys.argv[1])
