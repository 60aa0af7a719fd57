"""Two instances of the processor, one of them killed again and again."""

from __future__ import annotations

import random
import subprocess
import sys
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from milepost.cli.demo.place import Place

INSTANCES = 2


class Instances:
    """Runs them until the end of the block. `kills` counts the SIGKILLs so far."""

    def __init__(self, place: Place, kill_every_seconds: float) -> None:
        self._place, self._interval = place, kill_every_seconds
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stop = Event()
        self._killer = Thread(target=self._kill_at_random, name="killer", daemon=True)
        self.kills = 0

    def __enter__(self) -> Instances:
        self._processes = [self._start() for _ in range(INSTANCES)]
        self._killer.start()
        return self

    def spare(self) -> None:
        """Kill no more, so that what is left to do gets done; once at least, however short
        the demo."""
        self._stop.set()
        self._killer.join()
        if not self.kills:
            self._kill_one()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._killer.join()
        for process in self._processes:
            process.kill()
            process.wait()

    def _kill_at_random(self) -> None:
        while not self._stop.wait(self._interval):
            self._kill_one()

    def _kill_one(self) -> None:
        victim = random.randrange(INSTANCES)  # noqa: S311
        self._processes[victim].kill()
        self._processes[victim].wait()
        self.kills += 1
        self._processes[victim] = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "milepost.cli.demo.balances", self._place.mp.schema],
            env=self._place.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
