"""Run an application in several processes: start them, restart those that die, pass a stop on.

Each is `milepost run` in a session of its own, so that Ctrl-C on a terminal reaches only the
parent, which tells them once. They write to the parent's streams, whole lines at a time. If the
parent dies, the pipe that it holds open ends, and they stop.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from milepost.retry import Retry
from milepost.runtime import RESTART, Backoff, stopping_on_signals

PARENT = "MILEPOST_PARENT_PIPE"
LOOK_SECONDS = 0.05
KILL_SECONDS = 10.0  # beyond what a process may take to stop by itself
log = logging.getLogger("milepost.run")


@dataclass(slots=True)
class Child:
    """One of the processes. `failed_at` and `code` are of its end, until it is started again."""

    number: int
    arguments: Sequence[str]
    restart: Retry
    process: subprocess.Popen[bytes] | None = None
    code: int = 0
    failed_at: float = 0.0
    starts_at: float = 0.0
    _started_at: float = 0.0
    _backoff: Backoff = field(init=False)

    def __post_init__(self) -> None:
        self._backoff = Backoff(self.restart)

    def start(self, pipe: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "milepost.cli", *self.arguments],
            stdin=subprocess.DEVNULL,
            env=os.environ | {PARENT: str(pipe)},
            pass_fds=[pipe],
            start_new_session=True,
        )
        self.code, self._started_at = 0, time.monotonic()
        log.info("process=%s started pid=%s", self.number, self.process.pid)

    def has_ended(self) -> bool:
        """Whether it has just ended; then its code is known."""
        if self.process is None or (code := self.process.poll()) is None:
            return False
        # As a shell says it, if a signal ended it.
        self.process, self.code = None, code if code >= 0 else 128 - code
        self.failed_at = time.monotonic()
        return True

    def plan_restart(self) -> None:
        if self.failed_at - self._started_at > self.restart.longest_seconds:
            self._backoff.reset()
        seconds = self._backoff.next_seconds()
        self.starts_at = time.monotonic() + seconds
        log.error("process=%s ended code=%s, restarts in %.1f s", self.number, self.code, seconds)


@dataclass(slots=True)
class Processes:
    """Until all have ended, or a stop is requested. With `is_restarted`, one that fails is started
    again after a growing pause; with `is_fail_fast`, the first failure stops all."""

    commands: Sequence[Sequence[str]]
    stop_seconds: float = 30.0
    is_restarted: bool = True
    is_fail_fast: bool = False
    restart: Retry = RESTART
    stop: threading.Event = field(default_factory=threading.Event)
    _children: list[Child] = field(default_factory=list, init=False)

    def run(self) -> int:
        """The exit code of the first one that failed and was not started again; 0 if none did."""
        self._children = [Child(n, c, self.restart) for n, c in enumerate(self.commands, 1)]
        theirs, ours = os.pipe()
        with stopping_on_signals(self.stop, self._kill):
            try:
                for child in self._children:
                    child.start(theirs)
                while not self.stop.is_set() and self._look(theirs):
                    self.stop.wait(LOOK_SECONDS)
            finally:
                self._end()
                os.close(ours)
                os.close(theirs)
        failed = [child for child in self._children if child.code]
        return min(failed, key=lambda child: child.failed_at).code if failed else 0

    def _look(self, pipe: int) -> bool:
        """Whether any of them runs, or will run again."""
        for child in self._children:
            if child.has_ended() and child.code:
                if self.is_fail_fast:
                    self.stop.set()
                elif self.is_restarted:
                    child.plan_restart()
            elif child.process is None and child.starts_at and time.monotonic() > child.starts_at:
                child.starts_at = 0.0
                child.start(pipe)
        return any(child.process is not None or child.starts_at for child in self._children)

    def _kill(self) -> None:
        """Without this process, they would end in order."""
        for child in self._children:
            if child.process is not None:
                child.process.kill()

    def _end(self) -> None:
        running = [child for child in self._children if child.process is not None]
        for child in running:
            if child.process is not None and child.process.poll() is None:
                child.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + self.stop_seconds + KILL_SECONDS
        for child in running:
            if child.process is not None:
                wait_or_kill(child.process, deadline)
            if child.has_ended() and child.code == 128 + signal.SIGTERM:
                child.code = 0  # it was still starting


def wait_or_kill(process: subprocess.Popen[bytes], deadline: float) -> None:
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        log.warning("pid=%s did not stop and is killed", process.pid)
        process.kill()
        process.wait()


def stop_with_parent() -> None:
    """In a process that was started by another one: stop as by SIGTERM if that one is gone."""
    if (pipe := os.environ.pop(PARENT, None)) is None:
        return

    def wait() -> None:
        os.read(int(pipe), 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="parent", daemon=True).start()
