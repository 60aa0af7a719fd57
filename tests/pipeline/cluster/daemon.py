"""A process that starts others: it is found, watched and ended together with them.

Each has a session of its own. Spark's Python workers leave its process group, never its session.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import wait_until

PATIENCE_SECONDS = 300.0  # a start of Java takes ten times as long on a busy machine
LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Daemon:
    """The first process of a session, and the file that it writes its log to."""

    process: subprocess.Popen[bytes]
    log: Path

    def is_running(self) -> bool:
        return self.process.poll() is None

    def members(self, word: str = "") -> list[int]:
        """The processes of its session whose command line has this word in it."""
        return [pid for pid, line in running_processes() if word in line and self._has(pid)]

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Waits for what it is to bring about; if it does not, its log says why."""
        try:
            wait_until(lambda: condition() or not self.is_running(), PATIENCE_SECONDS, LOOK_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log.read_text()}") from None
        assert condition(), f"ended with {self.process.poll()}:\n{self.log.read_text()}"

    def wait_to_say(self, pattern: str) -> str:
        """Waits for a line of its log; what the group of the pattern found."""
        self.wait_until(lambda: self._said(pattern))
        found = self._said(pattern)
        return found[1] if found else ""

    def kill(self) -> None:
        """All at once and without notice, as a machine goes down."""
        # Again, for what was started while the list was read.
        while members := self.members():
            for pid in members:
                kill(pid)
            if self.process.pid in members:
                self.process.wait(PATIENCE_SECONDS)

    def _said(self, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, self.log.read_text())

    def _has(self, pid: int) -> bool:
        try:
            return os.getsid(pid) == self.process.pid
        except ProcessLookupError:
            return False


def start(command: Sequence[str], environment: Mapping[str, str], log: Path, cwd: Path) -> Daemon:
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Daemon(process, log)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # ended by itself meanwhile


def running_processes() -> list[tuple[int, str]]:
    """Ids and command lines, without what has died and only waits for its parent to notice."""
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,stat=,args="],  # noqa: S607 - wherever ps is
        capture_output=True,
        text=True,
        check=True,
    )
    rows = (line.split(maxsplit=2) for line in listing.stdout.splitlines())
    return [(int(row[0]), row[2]) for row in rows if len(row) == 3 and row[1][0] != "Z"]
