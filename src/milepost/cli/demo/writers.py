"""The writing processes, as the process that started them sees them."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.errors import MilepostError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.cli.demo.place import Place


class WriterFailed(MilepostError):
    """A writer of the demo ended with an error."""


@dataclass(frozen=True, slots=True)
class Written:
    """What the writers say they did."""

    committed: int
    rolled_back: int


@dataclass(frozen=True, slots=True)
class Writers:
    processes: tuple[subprocess.Popen[str], ...]

    def wait_until_writing(self) -> None:
        for process in self.processes:
            if process.stdout is not None:
                process.stdout.readline()

    def stop(self) -> None:
        """Each ends after the transaction in hand."""
        for process in self.processes:
            if process.stdin is not None:
                process.stdin.close()
                process.stdin = None  # else communicate() would flush it

    def have_ended(self) -> bool:
        return all(process.poll() is not None for process in self.processes)

    def written(self) -> Written:
        """Waits for their end."""
        reports = [self._report(process) for process in self.processes]
        return Written(
            sum(report["committed"] for report in reports),
            sum(report["rolled_back"] for report in reports),
        )

    def _report(self, process: subprocess.Popen[str]) -> dict[str, int]:
        output, errors = process.communicate()
        if process.returncode != 0:
            last_line = errors.strip().rpartition("\n")[2]
            raise WriterFailed(f"a writer ended with code {process.returncode}: {last_line}")
        report: dict[str, int] = json.loads(output)
        return report


@contextmanager
def started_writers(place: Place, count: int) -> Iterator[Writers]:
    """Started together; none outlives the block."""
    processes: list[subprocess.Popen[str]] = []
    try:
        for number in range(count):
            processes.append(_start(place, number))  # noqa: PERF401
        yield Writers(tuple(processes))
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _start(place: Place, number: int) -> subprocess.Popen[str]:
    arguments = (place.mp.schema, str(number))
    return subprocess.Popen(
        [sys.executable, "-m", "milepost.cli.demo.writer", *arguments],
        env=place.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
