"""An example as a newcomer runs it: a process of its own, in a directory of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests import zygote
from tests.zygote import ROOT

PATIENCE_SECONDS = 240.0  # on a busy machine
SPARK_SECONDS = 840.0  # where Spark is started again and again


@dataclass(frozen=True, slots=True)
class Place:
    """Where the commands of an example's first lines are entered."""

    url: str
    directory: Path

    def start(self, command: str, stdout: int | IO[str] = subprocess.PIPE) -> subprocess.Popen[str]:
        """`python examples/shop.py 20`, or `milepost run examples.shop:mp`."""
        program, *arguments = self._words(command)
        words = ["-m", "milepost.cli"] if program == "milepost" else []
        return subprocess.Popen(
            [sys.executable, *words, *arguments],
            cwd=self.directory,
            env=self._environment(),
            stdout=stdout,
            text=True,
            start_new_session=True,  # so that what it starts can be ended with it
        )

    def said(self, command: str) -> str:
        """What it prints; it must succeed."""
        words = self._words(command)
        code, output, errors = zygote.run(
            words, self._environment(), timeout=PATIENCE_SECONDS, directory=self.directory
        )
        assert code == 0, (command, errors)
        return output

    def said_by_spark(self, command: str) -> str:
        """The same of one that starts Spark, which warns."""
        with self.start(command) as process:
            return output_of(process, SPARK_SECONDS)

    @contextmanager
    def running(self, command: str) -> Iterator[Callable[[], str]]:
        """While it runs: what it has printed so far. Then Ctrl-C ends it, and that is a success."""
        file = self.directory / f"printed-{len(list(self.directory.glob('printed-*')))}"
        with file.open("w") as output, self.start(command, output) as process:
            try:
                yield file.read_text
                process.send_signal(signal.SIGINT)
                output_of(process)
            finally:
                process.kill()

    def _words(self, command: str) -> list[str]:
        return [str(ROOT / w) if w.startswith("examples/") else w for w in command.split()]

    def _environment(self) -> dict[str, str]:
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **os.environ,
            "MILEPOST_URL": self.url,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONUNBUFFERED": "1",
        }


def output_of(process: subprocess.Popen[str], seconds: float = PATIENCE_SECONDS) -> str:
    """Of one that is about to end. If it does not, neither would the Spark that it has started,
    which keeps a port that the next one needs."""
    try:
        output, _ = process.communicate(timeout=seconds)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 0, process.args
    return output
