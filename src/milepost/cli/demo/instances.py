"""Two instances that share a processor; one of them is killed again and again, and the other takes
its segments over."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from threading import Event, Thread
from typing import TYPE_CHECKING

from milepost.cli.demo.balances import balances_processor
from milepost.processors.segmented.listing import list_segments

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from milepost.cli.demo.place import Place
    from milepost.db import Connection

INSTANCES = 2
TAKEOVER_SECONDS = 20.0  # the longest that is waited for the segments to move
LOOK_SECONDS = 0.05


class Instances:
    """Runs them until the end of the block. `kills` counts the SIGKILLs so far, `takeovers` holds
    how many seconds each time the dead one's segments took to move."""

    def __init__(
        self, place: Place, kill_every_seconds: float, tell: Callable[[str], None]
    ) -> None:
        self._place, self._interval, self._tell = place, kill_every_seconds, tell
        self._key = balances_processor(place.mp).definition.options.key
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stop = Event()
        self._killer = Thread(target=self._kill_at_random, name="killer", daemon=True)
        self.kills = 0
        self.takeovers: list[float] = []

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
        process = self._processes[victim]
        with self._place.mp.connect() as conn:
            held = self._held_by(conn, process.pid)
            process.kill()
            process.wait()
            self.kills += 1
            self._watch_them_move(conn, process.pid, held)
        self._processes[victim] = self._start()

    def _watch_them_move(self, conn: Connection, pid: int, held: int) -> None:
        if not held:
            return
        began = time.monotonic()
        while self._held_by(conn, pid) and time.monotonic() - began < TAKEOVER_SECONDS:
            time.sleep(LOOK_SECONDS)
        if self._held_by(conn, pid):
            self._tell(f"balances: nobody has taken over {held} segments so far")
            return
        seconds = time.monotonic() - began
        self.takeovers.append(seconds)
        self._tell(
            f"balances: an instance was killed, the other took its {held} segments over after "
            f"{seconds:.1f} s"
        )

    def _held_by(self, conn: Connection, pid: int) -> int:
        """How many segments the instance in this process has; its pid is a part of its name."""
        segments = list_segments(conn, self._place.mp.schema, self._key, count_up_to=0)
        return sum(f":{pid}:" in (segment.owner or "") for segment in segments)

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "milepost.cli.demo.balances", self._place.mp.schema],
            env=self._place.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
