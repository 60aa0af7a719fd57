"""A driver of the pipelines, as the process that started it sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from milepost.cli.demo.pipelines import BATCH_BEGAN
from milepost.errors import MilepostError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from milepost.cli.demo.place import Place


class DriverFailed(MilepostError):
    """A driver or a rebuild of the demo ended by itself."""


@dataclass(frozen=True, slots=True)
class Driver:
    process: subprocess.Popen[str]
    errors: IO[str]

    def output(self) -> str:
        """All of it, up to its end. Not communicate(), which closes what it must not read."""
        if self.process.stdout is None:
            raise RuntimeError("The driver's output is not a pipe.")
        said = self.process.stdout.read()
        self.process.wait()
        return said

    def wait_for_batches(self, count: int) -> None:
        """Until it is in the middle of its `count`-th batch from now."""
        output = self.process.stdout
        if output is None:
            raise RuntimeError("The driver's output is not a pipe.")
        for line in output:
            count -= BATCH_BEGAN in line
            if not count:
                return
        raise self.failed("the driver")

    def failed(self, what: str) -> DriverFailed:
        """With the last line that it wrote: an error's message."""
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().strip().rpartition("\n")[2]
        return DriverFailed(f"{what} ended with code {code}: {said}")

    def kill(self) -> None:
        """With its Java, which is a process of the same group."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def rebuild(place: Place, directory: Path) -> int:
    """Fill a new version of revenue_by_day and swap it in; its number."""
    with started_driver(place, directory, "rebuild") as driver:
        output = driver.output()
        if driver.process.returncode != 0:
            raise driver.failed("the rebuild")
    return int(output.strip().rpartition("\n")[2])


@contextmanager
def started_driver(place: Place, directory: Path, *arguments: str) -> Iterator[Driver]:
    """Killed at the end of the block."""
    with tempfile.TemporaryFile("w+") as errors:
        driver = Driver(_start(place, directory, errors, *arguments), errors)
        try:
            yield driver
        finally:
            driver.kill()


def _start(
    place: Place, directory: Path, errors: IO[str], *arguments: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "milepost.cli.demo.pipelines", place.mp.schema, *arguments],
        env={**place.environment(), "MILEPOST_SPARK_DIR": str(directory)},
        stdin=subprocess.PIPE,  # closed by the end of this process
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
    )
