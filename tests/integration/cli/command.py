"""The real command, in a process of its own, on one database."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import zygote

# What this machine says about databases must not reach the command under test.
_FOREIGN = ("PG", "MILEPOST_")
_STYLES = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Result:
    code: int
    stdout: str
    stderr: str

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.stdout.splitlines()]

    def document(self) -> Any:
        return json.loads(self.stdout)


@dataclass(frozen=True, slots=True)
class Cli:
    """Runs `milepost` with MILEPOST_URL set to the database of the test."""

    url: str
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, stdin: str = "", timeout: float = 120) -> Result:
        return Result(*zygote.run(["milepost", *arguments], self._environment(), stdin, timeout))

    def start(
        self,
        *arguments: str,
        stdin: int = subprocess.PIPE,
        stdout: int = subprocess.PIPE,
        before: tuple[str, ...] = (),
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*before, sys.executable, "-W", "error", "-m", "milepost.cli", *arguments],
            env=self._environment(),
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_on_terminal(self, *arguments: str, answer: str = "", columns: int = 80) -> Result:
        """With a terminal for all three streams, on which `answer` is typed; what it shows, without
        colours."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.write(ours, answer.encode())
        environment = self._environment() | {"TERM": "xterm"}
        command = ["milepost", *arguments]
        process = zygote.start_at(zygote.zygote(), command, environment, [its] * 3, Path.cwd())
        os.close(its)
        shown = b""
        with suppress(OSError):  # which is how Linux says that the other end is closed
            while chunk := os.read(ours, 1 << 16):
                shown += chunk
        os.close(ours)
        text = _STYLES.sub("", shown.decode().replace("\r\n", "\n"))
        code = process.wait(timeout=60)
        process.close()
        return Result(code, text, "")

    def start_in_background(self, *arguments: str) -> subprocess.Popen[str]:
        """As a script starts what it does not wait for: with SIGINT ignored."""
        return self.start(*arguments, before=("sh", "-c", """trap '' INT; exec "$@" """, "sh"))

    def _environment(self) -> dict[str, str]:
        kept = {n: v for n, v in os.environ.items() if not n.startswith(_FOREIGN)}
        # A width of their own would make the tests depend on the terminal they run in.
        kept.pop("COLUMNS", None)
        return {**kept, "MILEPOST_URL": self.url, **self.variables}
