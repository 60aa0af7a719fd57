"""A user's project: files in a directory, and a run of pytest in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

UNSET = ("MILEPOST_URL", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST")
SUMMARY = re.compile(r"(\d+) (passed|failed|error)")


@dataclass(frozen=True, slots=True)
class Result:
    output: str
    counts: dict[str, int]


@dataclass(slots=True)
class Project:
    """`server`: the URL that its tests use. None: they start an embedded server."""

    place: Path
    server: str | None
    variables: dict[str, str] = field(default_factory=dict)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.place / f"{name}.py").write_text(dedent(text))

    def configure(self, text: str) -> None:
        (self.place / "pytest.ini").write_text(f"[pytest]\n{dedent(text)}")

    def run(self, *arguments: str) -> Result:
        environment = {k: v for k, v in os.environ.items() if k not in UNSET} | self.variables
        if self.server is not None:
            environment["MILEPOST_TEST_URL"] = self.server
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
            cwd=self.place,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        output = done.stdout + done.stderr
        last = output.strip().splitlines()[-1]
        return Result(output, {word: int(count) for count, word in SUMMARY.findall(last)})
