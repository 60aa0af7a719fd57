"""The writer processes, as seen by the process that started them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from subprocess import PIPE, Popen

from milepost.errors import MilepostError
from milepost_demo.place import Place


class WriterFailed(MilepostError):
    """A writer of the demo ended with an error."""


@dataclass(frozen=True, slots=True)
class Written:
    """What the writers report."""

    committed: int
    rolled_back: int


@dataclass(frozen=True, slots=True)
class Writers:
    processes: tuple[Popen[str], ...]

    def wait_until_writing(self) -> None:
        for process in self.processes:
            if process.stdout is not None:
                process.stdout.readline()

    def stop(self) -> None:
        """Each writer ends after its current transaction."""
        for process in self.processes:
            if process.stdin is not None:
                process.stdin.close()
                process.stdin = None  # otherwise communicate() would flush it

    def have_ended(self) -> bool:
        return all(process.poll() is not None for process in self.processes)

    def written(self) -> Written:
        """Waits until they have ended."""
        reports = [self._report(process) for process in self.processes]
        return Written(
            sum(report["committed"] for report in reports),
            sum(report["rolled_back"] for report in reports),
        )

    def _report(self, process: Popen[str]) -> dict[str, int]:
        output, errors = process.communicate()
        if process.returncode != 0:
            last_line = errors.strip().rpartition("\n")[2]
            raise WriterFailed(f"a writer ended with code {process.returncode}: {last_line}")
        report: dict[str, int] = json.loads(output)
        return report


@contextmanager
def started_writers(place: Place, count: int) -> Iterator[Writers]:
    """They are killed at the end of the block."""
    processes: list[Popen[str]] = []
    try:
        for number in range(count):
            process = place.start("writer", str(number), stdin=PIPE, stdout=PIPE, stderr=PIPE)
            processes.append(process)
        yield Writers(tuple(processes))
    finally:
        for process in processes:
            process.kill()
            process.communicate()
