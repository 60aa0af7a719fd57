"""Stop processes with bursts of signals: python -m tests.integration.runtime.signalled WAY STOPS.
It prints how each ended, up to the first one that does not: its return code, or "hangs"."""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import threading
import time
from contextlib import suppress

from milepost.cli.processes import Processes
from milepost.runtime import Group, Until, stopping_on_signals
from milepost.sql import Activity

MEMBERS = 12
HANGS_SECONDS = 10.0
NUMBERS = (signal.SIGTERM, signal.SIGTERM, signal.SIGINT)


class Waiting:
    """A member that waits for the stop alone."""

    name = "waiting"
    activity: Activity = "read"
    own_connections = 0

    def __init__(self, begun: threading.Semaphore) -> None:
        self.begun = begun

    def run(self, until: Until, stop: threading.Event) -> None:
        self.begun.release()
        stop.wait()

    def caught_up(self) -> bool:
        return False


def group(say: int) -> None:
    begun = threading.Semaphore(0)
    waiting = Group([Waiting(begun) for _ in range(MEMBERS)])

    def tell() -> None:
        for _ in range(MEMBERS):
            begun.acquire()
        os.write(say, b"!")

    threading.Thread(target=tell, daemon=True).start()
    with stopping_on_signals(waiting.stop):
        waiting.run()


def parent(say: int) -> None:
    """Of processes; its main thread waits for the stop."""

    class Parent(Processes):
        def _look(self, pipe: int) -> bool:
            return os.write(say, b"!") > 0

    Parent([]).run()


def start(way: str) -> int:
    hear, say = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            {"group": group, "parent": parent}[way](say)
        finally:
            os._exit(0)
    os.close(say)
    os.read(hear, 1)
    return pid


def stop(pid: int, chance: random.Random) -> None:
    for _ in range(chance.randint(2, 6)):
        with suppress(ProcessLookupError):
            os.kill(pid, chance.choice(NUMBERS))
        until = time.perf_counter() + chance.uniform(10e-6, 100e-6)
        while time.perf_counter() < until:
            pass


def end(pid: int) -> str:
    ended = os.pidfd_open(pid)
    try:
        if not select.select([ended], [], [], HANGS_SECONDS)[0]:
            os.kill(pid, signal.SIGKILL)
            return "hangs"
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(ended)
    return str(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    chance = random.Random(1)
    for _ in range(int(sys.argv[2])):
        pid = start(sys.argv[1])
        stop(pid, chance)
        ended = end(pid)
        sys.stdout.write(f"{ended}\n")
        if ended == "hangs":
            break
